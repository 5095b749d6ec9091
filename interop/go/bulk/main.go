// `bulk make N` writes N bytes that are different at every place; `bulk check` reads such bytes and says how many came,
// or fails at the first wrong one. For programs that move bodies but cannot check them.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	"leno/interop/pattern"
)

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "make":
		length, err := strconv.ParseInt(os.Args[2], 10, 64)
		if err == nil {
			_, err = io.Copy(os.Stdout, &pattern.Reader{Left: length})
		}
		check(err)
	case len(os.Args) == 2 && os.Args[1] == "check":
		length, err := pattern.Check(os.Stdin)
		check(err)
		fmt.Println(length)
	default:
		log.Fatal("bulk make N | bulk check")
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
