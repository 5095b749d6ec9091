// A relay that proves who it is: it takes plain connections and carries each over mutual TLS to a sidecar, byte for byte.
// So a client without a certificate of the mesh, like h2spec, reaches the listener that asks for one. It prints its
// address as JSON when it is ready.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
)

func main() {
	certificate := flag.String("cert", "", "chain of the certificate to show, PEM")
	key := flag.String("key", "", "its key, PEM")
	alpn := flag.String("alpn", "leno-h2", "protocol to ask for")
	to := flag.String("to", "", "address of the sidecar")
	flag.Parse()
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	check(err)
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{*alpn},
		MinVersion:   tls.VersionTLS13,
		// The mesh has identities where this would look for a host name, and who answers is not under test here.
		InsecureSkipVerify: true,
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Printf("{\"address\":\"%s\"}\n", listener.Addr())
	for {
		conn, err := listener.Accept()
		check(err)
		go carry(conn.(*net.TCPConn), *to, config)
	}
}

// carry moves bytes both ways. The end of one direction is passed on, and the end of the sidecar's ends everything: that
// is what a client looks at to learn whether the connection was closed.
func carry(from *net.TCPConn, address string, config *tls.Config) {
	defer from.Close()
	to, err := tls.Dial("tcp", address, config)
	if err != nil {
		log.Print(err)
		return
	}
	defer to.Close()
	if asked := config.NextProtos[0]; to.ConnectionState().NegotiatedProtocol != asked {
		log.Printf("the sidecar does not speak %s", asked)
		return
	}
	go func() {
		io.Copy(to, from)
		to.CloseWrite()
	}()
	io.Copy(from, to)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
