package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// smuggled is the target that no back end may ever be asked for.
const smuggled = "GET /smuggled"

// probe sends two requests on one connection, as somebody else would, and checks that each gets its own answer.
func probe(name, to string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := range 2 {
		target := fmt.Sprintf("/probe%d/%s", i, name)
		answer, err := client.Get("http://" + to + target)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if seen := answer.Header.Get("x-seen"); answer.StatusCode != 200 || seen != "GET "+target {
			return fmt.Errorf("%s got %s for %q", target, answer.Status, seen)
		}
	}
	return nil
}

// length of the back end's log so far, in bytes.
func length(log string) int {
	about, err := os.Stat(log)
	if err != nil {
		return 0
	}
	return int(about.Size())
}

// linesOf gives what the back end wrote about this case after byte `from`: lines that name it, and those that name
// nothing, which a back end writes when it could not read a request.
func linesOf(name, log string, from int) ([]string, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, line := range strings.Split(string(text[min(from, len(text)):]), "\n") {
		words := strings.Fields(line)
		if len(words) < 2 || strings.Contains(words[1], "/probe") {
			continue
		}
		target, _, _ := strings.Cut(words[1], "#")
		if words[0] == "unread" || strings.HasSuffix(target, "/"+name) {
			found = append(found, line)
		}
	}
	return found, nil
}

// judge says what is wrong with what became of the case, or nothing.
func judge(c *attack, got outcome, lines []string) string {
	had := fmt.Sprintf("%s; the back end saw %q", got, lines)
	if len(lines) > 1 {
		return "more than one request: " + had
	}
	// Where the fault comes late, or is none in everyone's eyes, a back end may have begun with the request.
	refused := got.refused() && (len(lines) == 0 || c.want != "refused")
	passed := len(lines) == 1 && fits(c.line, lines[0]) && len(got.codes) == 1 && got.codes[0] == "200"
	// nginx answers some requests as soon as it has their heads.
	early := len(lines) == 1 && len(got.codes) == 1 && got.codes[0] == "200"
	switch {
	case c.want == "refused" && refused, c.want == "cut" && (refused || early):
		return ""
	case c.want == "once" && passed:
		return ""
	case c.want == "either" && (refused || passed):
		return ""
	}
	return fmt.Sprintf("want %s: %s", strings.TrimSpace(c.want+" "+c.line), had)
}

// fits compares words; a back end that does not know a body's length writes a dash.
func fits(want, line string) bool {
	wanted, seen := strings.Fields(want), strings.Fields(line)
	if len(wanted) != len(seen) {
		return false
	}
	for i := range wanted {
		if wanted[i] != seen[i] && !(i == 3 && seen[i] == "-") {
			return false
		}
	}
	return true
}
