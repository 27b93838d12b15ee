"""Files of records from outside: read within limits, whatever they promise."""
