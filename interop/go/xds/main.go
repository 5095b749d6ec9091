// A control plane made with go-control-plane, and a sidecar that is told by it: each case starts
// both with servers behind, changes what is told while requests run, and ends with an error when
// anything went otherwise than it should. Run by `cargo xtask interop xds`.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

// patience is how long anything may take that is waited for: a busy machine is no failure.
const patience = 60 * time.Second

// settings say which programs and which variant of the protocol a case is about.
type settings struct {
	proxy  string
	folder string
	whole  bool
}

var cases = map[string]func(settings) error{
	"example":  example,
	"changes":  changes,
	"words":    words,
	"refusals": refusals,
	"restart":  restart,
	"tls":      mutual,
	"unix":     local,
}

func main() {
	log.SetFlags(0)
	var of settings
	name := flag.String("case", "", "which one")
	variant := flag.String("xds", "delta", "delta or stateOfTheWorld")
	flag.StringVar(&of.proxy, "proxy", "leno-proxy", "the sidecar")
	flag.StringVar(&of.folder, "folder", os.TempDir(), "for configurations and logs")
	flag.Parse()
	of.whole = *variant == "stateOfTheWorld"
	run, known := cases[*name]
	if !known {
		log.Fatalf("%q is no case", *name)
	}
	of.folder = fmt.Sprintf("%s/xds-%s-%s", of.folder, *name, *variant)
	if err := os.MkdirAll(of.folder, 0o700); err != nil {
		log.Fatal(err)
	}
	if err := run(of); err != nil {
		log.Fatal(err)
	}
}

// until waits for what is to become true.
func until(what string, holds func() bool) error {
	for begun := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience {
			return fmt.Errorf("never: %s", what)
		}
	}
	return nil
}
