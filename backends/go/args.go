package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"

	"extender-gateway.io/policy/internal/jsonargs"
	"extender-gateway.io/policy/internal/limits"
)

// argsDigest is the SHA-256 of args, by which calls name them.
type argsDigest [sha256.Size]byte

// newArgsDigest refuses args that are so long that their digest is not worth the work.
func newArgsDigest(args []byte) (argsDigest, error) {
	if len(args) > limits.ArgsBytes {
		return argsDigest{}, wrongArgs(
			"args has %d bytes; at most %d are allowed, put longer lists into a file of the policy", len(args), limits.ArgsBytes)
	}
	return sha256.Sum256(args), nil
}

// normalized are args as they are parsed: an object, or empty, which means the same as `{}`.
func normalized(args []byte) ([]byte, error) {
	if !utf8.Valid(args) {
		return nil, wrongArgs("args is not UTF-8")
	}
	args = bytes.TrimSpace(args)
	if len(args) == 0 {
		return nil, nil
	}
	if args[0] != '{' {
		return nil, wrongArgs("args is not a JSON object; write `args: {name: value}`")
	}
	if args[len(args)-1] == '}' && len(bytes.TrimSpace(args[1:len(args)-1])) == 0 {
		return nil, nil
	}
	return args, nil
}

// refuseAny is for policies that take no args.
func refuseAny(args []byte) error {
	args, err := normalized(args)
	if err == nil && len(args) > 0 {
		err = wrongArgs("this policy takes no args; remove `args` from its entry in the configuration")
	}
	return err
}

// parsed are normalized args in the policy's own type, on top of the defaults.
func parsed[A any](args []byte, defaults A) (A, error) {
	if len(args) == 0 {
		args = []byte("{}")
	}
	// Maps and slices of the defaults are not shared with the result.
	result := jsonargs.Clone(defaults)
	if err := jsonargs.Check(args, reflect.ValueOf(&defaults).Elem()); err != nil {
		return result, wrongArgs("%v", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil {
		return result, wrongArgs("args: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return result, wrongArgs("args: trailing characters")
	}
	return result, nil
}

// built is the error of the author's function that builds a policy from args.
func built(err error) error {
	var declaration *DeclarationError
	if err == nil || errors.As(err, &declaration) {
		return err
	}
	return wrongArgs("%s", fmt.Sprint(err))
}
