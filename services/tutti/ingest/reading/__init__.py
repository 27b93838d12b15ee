"""Reading: folders, archives and containers become records, pages become documents."""
