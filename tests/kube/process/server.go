package process

import (
	"context"
	"errors"
)

// Server is a child that has printed its address on stdout.
type Server struct {
	*Process
	// Address is host:port.
	Address string
}

// Program is the program to run and its name.
type Program struct {
	// Name and Dir are as for Start.
	Name, Dir string
	Path      string
	Args      []string
}

// Serve starts the program and waits for a line "ANNOUNCEMENT ADDRESS" on its stdout.
func Serve(ctx context.Context, program Program, announcement string) (*Server, error) {
	p, err := Start(program.Name, program.Dir, program.Path, program.Args...)
	if err != nil {
		return nil, err
	}
	address, err := p.Line(ctx, announcement+" ")
	if err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return &Server{Process: p, Address: address}, nil
}
