// Sends requests that two readers could read two ways (interop/smuggling) to a sidecar, and finds out from the back
// end's log what became of each. It prints a line per case that went wrong and a last one with the count; it fails when
// there is any.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
)

func main() {
	corpus := flag.String("corpus", "", "file of cases")
	to := flag.String("to", "", "address of the sidecar")
	seen := flag.String("seen", "", "log of the back end")
	flag.Parse()
	cases, err := read(*corpus)
	if err != nil {
		log.Fatal(err)
	}
	bad := 0
	for i := range cases {
		why := run(&cases[i], *to, *seen)
		if why != "" {
			bad++
			fmt.Printf("%s: %s\n", cases[i].name, why)
		}
	}
	if text, _ := os.ReadFile(*seen); strings.Contains(string(text), smuggled) {
		bad++
		fmt.Printf("the back end was asked for %s\n", smuggled)
	}
	fmt.Printf("%d cases\n", len(cases))
	if bad > 0 {
		os.Exit(1)
	}
}

// run sends one case and then, as an innocent would, two requests of its own. What is wrong, or nothing.
func run(c *attack, to, seen string) string {
	send := sendBytes
	if c.fields != nil {
		send = sendFrames
	}
	from := length(seen)
	got := send(c, to)
	if err := probe(c.name, to); err != nil {
		return fmt.Sprintf("poisoned the next request: %v (its own: %s)", err, got)
	}
	lines, err := linesOf(c.name, seen, from)
	if err != nil {
		return err.Error()
	}
	return judge(c, got, lines)
}
