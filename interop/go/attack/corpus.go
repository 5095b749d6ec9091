package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// field is a line of a head as HTTP/2 has it.
type field struct{ name, value string }

// attack is one case of the corpus.
type attack struct {
	name string
	// What has to become of it: refused, cut, once, either.
	want string
	// What the back end has to have seen, as in its log.
	line string
	// HTTP/1: what is sent.
	bytes string
	// HTTP/2: the head, the DATA frames, the trailers.
	fields, trailers []field
	data             []string
}

func read(path string) ([]attack, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []attack
	for number, line := range strings.Split(string(text), "\n") {
		line = strings.TrimPrefix(line, "  ")
		word, rest, _ := strings.Cut(line, " ")
		if word == "case" {
			cases = append(cases, attack{name: rest})
			continue
		}
		if line == "" || word == "#" {
			continue
		}
		if len(cases) == 0 {
			return nil, fmt.Errorf("%s:%d: belongs to no case", path, number+1)
		}
		if err := cases[len(cases)-1].add(word, rest); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number+1, err)
		}
	}
	return cases, nil
}

func (c *attack) add(word, rest string) error {
	if word == "want" {
		c.want, c.line, _ = strings.Cut(rest, " ")
		line, err := unescape(c.line)
		c.line = line
		return err
	}
	switch word {
	case "|", ">":
		bytes, err := unescape(rest)
		if word == "|" {
			c.bytes += bytes
		} else {
			c.data = append(c.data, bytes)
		}
		return err
	case "=", "+":
		name, value, found := strings.Cut(rest, " =")
		if !found {
			return fmt.Errorf("a field without =")
		}
		name, err := unescape(name)
		if err != nil {
			return err
		}
		value, err = unescape(strings.TrimPrefix(value, " "))
		if word == "=" {
			c.fields = append(c.fields, field{name, value})
		} else {
			c.trailers = append(c.trailers, field{name, value})
		}
		return err
	}
	return fmt.Errorf("%q begins no line", word)
}

// unescape reads what Go's own strings know, and \0.
func unescape(text string) (string, error) {
	text = strings.ReplaceAll(text, `\0`, `\x00`)
	text = strings.ReplaceAll(text, `"`, `\"`)
	return strconv.Unquote(`"` + text + `"`)
}
