// Package jsonargs checks JSON against a Go type, so that a mistake is reported with its path and with what is expected.
// encoding/json alone accepts a misspelt letter case, ignores missing fields, and names neither list positions nor the
// fields that it knows.
package jsonargs

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Check says what is wrong with the JSON for the type of the defaults: the path, such as args.rules[1].weight, and what is
// expected. A field of a struct is required unless it has a default, or its tag omitempty or omitzero; its name is matched
// exactly.
func Check(text []byte, defaults reflect.Value) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	root, err := read(decoder, "args", 0)
	if err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("args: trailing characters")
	}
	return check("args", root, defaults.Type(), defaults)
}

// object keeps the order of the fields, so that the first mistake is the one that is reported.
type object struct {
	names  []string
	values map[string]any
}

// maxDepth bounds the work for hostile args: each level has a path as long as all levels above it.
const maxDepth = 100

func read(decoder *json.Decoder, path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("args: more than %d levels of lists and objects", maxDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, notJSON(err)
	}
	switch token {
	case json.Delim('{'):
		return readObject(decoder, path, depth+1)
	case json.Delim('['):
		return readList(decoder, path, depth+1)
	default:
		return token, nil
	}
}

func readObject(decoder *json.Decoder, path string, depth int) (any, error) {
	found := object{values: map[string]any{}}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		name, _ := token.(string)
		if _, twice := found.values[name]; twice {
			return nil, fmt.Errorf("%s.%s: the field is given twice", path, name)
		}
		value, err := read(decoder, path+"."+name, depth)
		if err != nil {
			return nil, err
		}
		found.names = append(found.names, name)
		found.values[name] = value
	}
	_, err := decoder.Token()
	return found, notJSON(err)
}

func readList(decoder *json.Decoder, path string, depth int) (any, error) {
	found := []any{}
	for decoder.More() {
		value, err := read(decoder, fmt.Sprintf("%s[%d]", path, len(found)), depth)
		if err != nil {
			return nil, err
		}
		found = append(found, value)
	}
	_, err := decoder.Token()
	return found, notJSON(err)
}

func notJSON(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("args: the JSON ends too early")
	default:
		return fmt.Errorf("args: not JSON: %w", err)
	}
}

// check has no valid defaults for what is in a list or a map.
func check(path string, value any, of reflect.Type, defaults reflect.Value) error {
	if of.Kind() == reflect.Pointer {
		if value == nil {
			return nil
		}
		return check(path, value, of.Elem(), reflect.Indirect(defaults))
	}
	if decodesItself(of) || of.Kind() == reflect.Interface {
		return nil
	}
	switch of.Kind() {
	case reflect.Struct:
		if value, is := value.(object); is {
			return checkStruct(path, value, of, defaults)
		}
	case reflect.Map:
		if value, is := value.(object); is {
			for _, name := range value.names {
				if err := check(path+"."+name, value.values[name], of.Elem(), reflect.Value{}); err != nil {
					return err
				}
			}
			return nil
		}
	case reflect.Slice, reflect.Array:
		if value, is := value.([]any); is {
			if of.Kind() == reflect.Array && len(value) != of.Len() {
				return fmt.Errorf("%s: invalid length %d, expected a list of %d", path, len(value), of.Len())
			}
			for position, element := range value {
				if err := check(fmt.Sprintf("%s[%d]", path, position), element, of.Elem(), reflect.Value{}); err != nil {
					return err
				}
			}
			return nil
		}
		// Bytes are a text in base64, which encoding/json checks.
		if _, is := value.(string); is && of.Elem().Kind() == reflect.Uint8 {
			return nil
		}
	case reflect.String:
		if _, is := value.(string); is {
			return nil
		}
	case reflect.Bool:
		if _, is := value.(bool); is {
			return nil
		}
	default:
		if number, is := value.(json.Number); is {
			return checkNumber(path, number, of)
		}
	}
	return fmt.Errorf("%s: invalid type: %s, expected %s", path, describe(value), expected(of))
}

func checkNumber(path string, number json.Number, of reflect.Type) error {
	var err error
	switch of.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err = strconv.ParseInt(number.String(), 10, of.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		_, err = strconv.ParseUint(number.String(), 10, of.Bits())
	case reflect.Float32, reflect.Float64:
		_, err = strconv.ParseFloat(number.String(), of.Bits())
	default:
		return fmt.Errorf("%s: invalid type: %s, expected %s", path, describe(number), expected(of))
	}
	if err != nil {
		return fmt.Errorf("%s: invalid value: %s, expected %s", path, describe(number), expected(of))
	}
	return nil
}

func checkStruct(path string, value object, of reflect.Type, defaults reflect.Value) error {
	known := fieldsOf(of, defaults)
	for _, name := range value.names {
		field, is := find(known, name)
		if !is {
			return fmt.Errorf("%s.%s: unknown field `%s`, expected %s", path, name, name, list(known))
		}
		if err := check(path+"."+name, value.values[name], field.of, field.defaults); err != nil {
			return err
		}
	}
	for _, field := range known {
		hasDefault := field.defaults.IsValid() && !field.defaults.IsZero()
		if _, given := value.values[field.name]; field.required && !given && !hasDefault {
			return fmt.Errorf("%s: missing field `%s`", path, field.name)
		}
	}
	return nil
}

// field is one of a struct as encoding/json sees it.
type field struct {
	name     string
	of       reflect.Type
	defaults reflect.Value
	required bool
}

func fieldsOf(of reflect.Type, defaults reflect.Value) []field {
	var fields []field
	for f := range of.Fields() {
		var inside reflect.Value
		if defaults.IsValid() {
			inside = defaults.FieldByIndex(f.Index)
		}
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				fields = append(fields, fieldsOf(inner, reflect.Indirect(inside))...)
				continue
			}
		}
		if name == "" {
			name = f.Name
		}
		parts := strings.Split(options, ",")
		optional := slices.Contains(parts, "omitempty") || slices.Contains(parts, "omitzero")
		inner := f.Type
		if slices.Contains(parts, "string") {
			inner = reflect.TypeFor[any]()
		}
		fields = append(fields, field{name: name, of: inner, defaults: inside, required: !optional})
	}
	return fields
}

func find(fields []field, name string) (field, bool) {
	position := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if position < 0 {
		return field{}, false
	}
	return fields[position], true
}

// list are the names as a sentence has them: `a`, `b` or `c`.
func list(fields []field) string {
	if len(fields) == 0 {
		return "no fields"
	}
	names := make([]string, len(fields))
	for position, field := range fields {
		names[position] = "`" + field.name + "`"
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// decodesItself says whether the type has a form of its own, which its method checks.
func decodesItself(of reflect.Type) bool {
	pointer := reflect.PointerTo(of)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprintf("boolean `%v`", value)
	case string:
		return fmt.Sprintf("string %q", shortened(value))
	case json.Number:
		if strings.ContainsAny(value.String(), ".eE") {
			return fmt.Sprintf("number `%s`", shortened(value.String()))
		}
		return fmt.Sprintf("integer `%s`", shortened(value.String()))
	case []any:
		return "a list"
	default:
		return "an object"
	}
}

// shortened is a text that operators can read in one line.
func shortened(text string) string {
	if characters := []rune(text); len(characters) > 64 {
		return string(characters[:64]) + "…"
	}
	return text
}

func expected(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		least := int64(math.MinInt64) >> (64 - of.Bits())
		return fmt.Sprintf("an integer from %d to %d", least, -(least + 1))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("an integer from 0 to %d", uint64(math.MaxUint64)>>(64-of.Bits()))
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "another value"
	}
}

// Clone is a copy that shares no map, slice or pointer in exported fields.
func Clone[T any](value T) T {
	copied := reflect.New(reflect.TypeFor[T]()).Elem()
	copied.Set(reflect.ValueOf(&value).Elem())
	separate(copied)
	return copied.Interface().(T)
}

func separate(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() && value.CanSet() {
			inner := reflect.New(value.Type().Elem())
			inner.Elem().Set(value.Elem())
			separate(inner.Elem())
			value.Set(inner)
		}
	case reflect.Struct:
		for position := range value.NumField() {
			if field := value.Field(position); field.CanSet() {
				separate(field)
			}
		}
	case reflect.Slice:
		if !value.IsNil() && value.CanSet() {
			inner := reflect.MakeSlice(value.Type(), value.Len(), value.Len())
			reflect.Copy(inner, value)
			for position := range inner.Len() {
				separate(inner.Index(position))
			}
			value.Set(inner)
		}
	case reflect.Map:
		if !value.IsNil() && value.CanSet() {
			inner := reflect.MakeMapWithSize(value.Type(), value.Len())
			for _, key := range value.MapKeys() {
				element := reflect.New(value.Type().Elem()).Elem()
				element.Set(value.MapIndex(key))
				separate(element)
				inner.SetMapIndex(key, element)
			}
			value.Set(inner)
		}
	}
}
