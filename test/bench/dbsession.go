package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// databaseSession is a connection that keeps its transaction until it is closed.
type databaseSession struct {
	psql *exec.Cmd
	in   io.WriteCloser
	said bytes.Buffer
}

// Open runs statements and returns when they are done. Their transaction stays open.
func (d databaseURL) Open(ctx context.Context, script string) (*databaseSession, error) {
	s := &databaseSession{psql: d.psql(ctx)}
	s.psql.Stderr = &s.said
	in, err := s.psql.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.in = in
	out, err := s.psql.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.psql.Start(); err != nil {
		return nil, err
	}
	if _, err = fmt.Fprintf(in, "%s;\n\\echo open\n", script); err == nil {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "open" {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("open a transaction: %w", errors.Join(err, s.Close()))
}

// Close ends the session. It may be called again.
func (s *databaseSession) Close() error {
	if s.in == nil {
		return nil
	}
	_ = s.in.Close()
	s.in = nil
	if err := s.psql.Wait(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, strings.TrimSpace(s.said.String()))
	}
	return nil
}
