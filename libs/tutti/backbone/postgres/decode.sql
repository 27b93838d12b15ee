-- decode(data, type): a serialized protobuf message as JSON, field by field, with the defaults of absent fields.
--
-- Fields of a type are in the table `messages`: {"NUMBER": {"name", "kind", "repeated", "type", "values"}}, and the value
-- of each field that is absent in `defaults`. Unknown fields are skipped. Times are ISO 8601 in UTC.
CREATE FUNCTION {views}.decode(data bytea, wanted text) RETURNS jsonb LANGUAGE plpgsql STABLE STRICT AS $body$
DECLARE
  fields jsonb;
  result jsonb;
  field jsonb;
  item jsonb;
  value bigint;
  inner_data bytea;
  size int := octet_length(data);
  at int := 0;
  stop int;
  shift int;
  byte int;
  wire int;
  packed boolean;
BEGIN
  SELECT m.fields, m.defaults INTO fields, result FROM {views}.messages m WHERE m.type = wanted;
  WHILE at < size LOOP
    value := 0; shift := 0;
    LOOP
      byte := get_byte(data, at); at := at + 1;
      value := value | ((byte & 127)::bigint << shift); shift := shift + 7;
      EXIT WHEN byte < 128;
    END LOOP;
    wire := value & 7;
    field := fields -> ((value >> 3)::text);
    stop := at;
    packed := false;
    IF wire = 2 THEN
      value := 0; shift := 0;
      LOOP
        byte := get_byte(data, at); at := at + 1;
        value := value | ((byte & 127)::bigint << shift); shift := shift + 7;
        EXIT WHEN byte < 128;
      END LOOP;
      stop := at + value;
      packed := field ->> 'kind' NOT IN ('string', 'bytes', 'message', 'map', 'time', 'duration');
      wire := CASE WHEN NOT packed THEN 2
                   WHEN field ->> 'kind' IN ('double', 'fixed64') THEN 1
                   WHEN field ->> 'kind' IN ('float', 'fixed32') THEN 5 ELSE 0 END;
      IF field IS NULL THEN
        at := stop;
        CONTINUE;
      END IF;
    END IF;
    LOOP
      EXIT WHEN packed AND at >= stop;
      IF wire = 0 THEN
        value := 0; shift := 0;
        LOOP
          byte := get_byte(data, at); at := at + 1;
          value := value | ((byte & 127)::bigint << shift); shift := shift + 7;
          EXIT WHEN byte < 128;
        END LOOP;
        item := CASE field ->> 'kind'
          WHEN 'bool' THEN to_jsonb(value <> 0)
          WHEN 'enum' THEN coalesce(field -> 'values' -> value::text, to_jsonb(value))
          WHEN 'unsigned' THEN to_jsonb(CASE WHEN value < 0 THEN value + 18446744073709551616 ELSE value END)
          WHEN 'zigzag' THEN to_jsonb(((value >> 1) & 9223372036854775807) # -(value & 1))
          ELSE to_jsonb(value) END;
      ELSIF wire = 1 OR wire = 5 THEN
        item := to_jsonb(0);
        value := 0;
        FOR byte IN REVERSE (CASE WHEN wire = 1 THEN 7 ELSE 3 END)..0 LOOP
          value := (value << 8) | get_byte(data, at + byte);
        END LOOP;
        at := at + (CASE WHEN wire = 1 THEN 8 ELSE 4 END);
        item := CASE WHEN field ->> 'kind' = 'double' THEN {views}.float_of(value, 11, 52)
                     WHEN field ->> 'kind' = 'float' THEN {views}.float_of(value, 8, 23)
                     ELSE to_jsonb(value) END;
      ELSE
        inner_data := substring(data FROM at + 1 FOR stop - at); at := stop;
        item := CASE field ->> 'kind'
          WHEN 'string' THEN to_jsonb(convert_from(inner_data, 'UTF8'))
          WHEN 'bytes' THEN to_jsonb(encode(inner_data, 'base64'))
          ELSE {views}.decode(inner_data, field ->> 'type') END;
        IF field ->> 'kind' = 'time' THEN
          item := to_jsonb(to_char(
            timestamp '1970-01-01' + (item ->> 'seconds')::bigint * interval '1 second'
              + (item ->> 'nanos')::int / 1000 * interval '1 microsecond',
            'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'));
        ELSIF field ->> 'kind' = 'duration' THEN
          item := to_jsonb((item ->> 'seconds')::numeric + (item ->> 'nanos')::numeric / 1000000000);
        END IF;
      END IF;
      IF field ->> 'kind' = 'map' THEN
        result := jsonb_set(result, ARRAY[field ->> 'name'],
                            (result -> (field ->> 'name')) || jsonb_build_object(item ->> 'key', item -> 'value'));
      ELSIF (field ->> 'repeated')::boolean THEN
        result := jsonb_set(result, ARRAY[field ->> 'name'], (result -> (field ->> 'name')) || jsonb_build_array(item));
      ELSIF field IS NOT NULL THEN
        result := result || jsonb_build_object(field ->> 'name', item);
      END IF;
      EXIT WHEN NOT packed;
    END LOOP;
  END LOOP;
  RETURN result;
END $body$;

-- float_of(bits, exponent_bits, fraction_bits): an IEEE 754 number; what JSON cannot hold is a string.
CREATE FUNCTION {views}.float_of(bits bigint, exponent_bits int, fraction_bits int) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT AS $body$
  WITH parts AS (
    SELECT CASE WHEN (bits >> (exponent_bits + fraction_bits)) & 1 = 1 THEN -1.0::float8 ELSE 1.0::float8 END AS sign,
           ((bits >> fraction_bits) & ((1::bigint << exponent_bits) - 1))::int AS exponent,
           (bits & ((1::bigint << fraction_bits) - 1))::float8 / (1::bigint << fraction_bits) AS fraction,
           (1 << exponent_bits) - 1 AS most, (1 << (exponent_bits - 1)) - 1 AS bias
  )
  SELECT CASE WHEN exponent = most AND fraction > 0 THEN to_jsonb('NaN'::text)
              WHEN exponent = most THEN to_jsonb(CASE WHEN sign < 0 THEN '-Infinity' ELSE 'Infinity' END::text)
              WHEN exponent = 0 THEN to_jsonb(sign * fraction * 2::float8 ^ (1 - bias + 52) / 2::float8 ^ 52)
              ELSE to_jsonb(sign * (1 + fraction) * 2::float8 ^ (exponent - bias)) END
  FROM parts;
$body$;
