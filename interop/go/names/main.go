// Looks up names with Go's standard library: `names NAME…` prints each with its addresses. GODEBUG=netdns=go or cgo chooses
// whose resolver it is. It imports C to be built with a C compiler or not at all: without one, Go's resolver would be asked
// whatever is chosen.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
)

import "C"

func main() {
	for _, name := range os.Args[1:] {
		found, err := net.DefaultResolver.LookupIP(context.Background(), "ip", name)
		var failed *net.DNSError
		if err != nil && !(errors.As(err, &failed) && failed.IsNotFound) {
			log.Fatal(err)
		}
		fmt.Print(name)
		for _, address := range found {
			fmt.Print(" ", address)
		}
		fmt.Println()
	}
}
