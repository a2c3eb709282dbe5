package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// sysroot is the folder of the Rust toolchain.
func sysroot() (string, error) {
	return printed("rustc", "--print", "sysroot")
}

// rustVersion is that of the compiler and of its standard library, such as 1.95.0.
func rustVersion() (string, error) {
	return second("rustc", "--version")
}

// glibcVersion is such as 2.36.
func glibcVersion() (string, error) {
	return second("getconf", "GNU_LIBC_VERSION")
}

func second(program string, arguments ...string) (string, error) {
	text, err := printed(program, arguments...)
	if err != nil {
		return "", err
	}
	words := strings.Fields(text)
	if len(words) < 2 {
		return "", fmt.Errorf("%s printed no version: %q", program, text)
	}
	return words[1], nil
}

func printed(program string, arguments ...string) (string, error) {
	out, err := exec.Command(program, arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return strings.TrimSpace(string(out)), nil
}
