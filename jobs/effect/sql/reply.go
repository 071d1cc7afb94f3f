package sql

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// MaxReply bounds how much of a statement's rows is kept, in bytes. The bound is the same as for a reply over HTTP.
const MaxReply = 64 << 10

// overReply is the message for rows that are too large to keep.
const overReply = "the rows that it returned are over 64 KiB, and are not kept"

// The OIDs of PostgreSQL's types that are not written as JSON strings. They never change. void is the type of a
// function that returns nothing.
const (
	boolOID = 16

	int8OID    = 20
	int2OID    = 21
	int4OID    = 23
	jsonOID    = 114
	float4OID  = 700
	float8OID  = 701
	numericOID = 1700
	jsonbOID   = 3802

	voidOID = 2278
)

// readReply reads all rows, in the text format, and returns them as JSON: the value of a function, or the rows of a
// statement as an array of objects. The reply of a function that returns a set is an array, unless the set has one row.
// reply is nil if there are no columns or the function returns nothing. over means that the rows were too large.
func readReply(rows pgx.Rows, function bool) (reply []byte, over bool, err error) {
	defer rows.Close()
	var values [][]byte
	size := 2
	for rows.Next() {
		value := rowJSON(rows.FieldDescriptions(), rows.RawValues(), function)
		if value == nil || over {
			continue
		}
		size += len(value) + 1
		if over = size > MaxReply; !over {
			values = append(values, value)
		}
	}
	if err := rows.Err(); err != nil || over {
		return nil, over, err
	}
	switch fields := rows.FieldDescriptions(); {
	case len(fields) == 0, function && len(values) == 0:
		return nil, false, nil
	case function && len(values) == 1:
		return values[0], false, nil
	}
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']'), false, nil
}

// rowJSON returns a row as JSON: its only value or an object of its columns. It returns nil if the function returns
// nothing.
func rowJSON(fields []pgconn.FieldDescription, values [][]byte, only bool) []byte {
	if only && len(fields) == 1 {
		if fields[0].DataTypeOID == voidOID {
			return nil
		}
		return valueJSON(fields[0].DataTypeOID, values[0])
	}
	out := []byte{'{'}
	for i, field := range fields {
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(field.Name) // a string always marshals
		out = append(append(append(out, name...), ':'), valueJSON(field.DataTypeOID, values[i])...)
	}
	return append(out, '}')
}

// valueJSON returns a value as JSON: numbers, booleans and JSON unchanged, everything else as the text that PostgreSQL
// writes.
func valueJSON(oid uint32, text []byte) []byte {
	if text == nil {
		return []byte("null")
	}
	switch oid {
	case boolOID:
		if string(text) == "t" {
			return []byte("true")
		}
		return []byte("false")
	case int2OID, int4OID, int8OID, numericOID, float4OID, float8OID, jsonOID, jsonbOID:
		if json.Valid(text) && utf8.Valid(text) { // NaN and Infinity are not
			return bytes.Clone(text)
		}
	}
	out, _ := json.Marshal(string(text)) // a string always marshals
	return out
}
