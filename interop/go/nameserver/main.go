// The name server of some names outside the mesh (docs/interop.md): `nameserver ADDRESS`, over UDP and TCP.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	ttl = 60
	// What every client takes over UDP.
	datagram = 512
	crowd    = 100
)

func main() {
	address := os.Args[1]
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		log.Fatal(err)
	}
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	go streams(tcp)
	fmt.Printf("{\"address\": %q}\n", address)
	query := make([]byte, 4096)
	for {
		length, peer, err := udp.ReadFrom(query)
		if err != nil {
			log.Fatal(err)
		}
		answer := answer(query[:length])
		if len(answer) > datagram {
			answer = cut(answer)
		}
		if _, err := udp.WriteTo(answer, peer); err != nil {
			log.Print(err)
		}
	}
}

func streams(listener net.Listener) {
	for {
		stream, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer stream.Close()
			for {
				var length uint16
				if binary.Read(stream, binary.BigEndian, &length) != nil {
					return
				}
				query := make([]byte, length)
				if _, err := io.ReadFull(stream, query); err != nil {
					return
				}
				answer := answer(query)
				stream.Write(binary.BigEndian.AppendUint16(nil, uint16(len(answer))))
				stream.Write(answer)
			}
		}()
	}
}

// No answers, and that they are missing.
func cut(whole []byte) []byte {
	var message dnsmessage.Message
	if err := message.Unpack(whole); err != nil {
		log.Fatal(err)
	}
	message.Answers, message.Authorities, message.Truncated = nil, nil, true
	return pack(message)
}

func answer(query []byte) []byte {
	var message dnsmessage.Message
	if err := message.Unpack(query); err != nil || len(message.Questions) != 1 {
		log.Fatalf("a query that is none: %v", err)
	}
	message.Response, message.RecursionAvailable, message.Additionals = true, true, nil
	question := message.Questions[0]
	name := strings.ToLower(question.Name.String())
	if strings.HasSuffix(name, "cluster.local.") {
		log.Fatalf("asked for %s, which is the mesh's own", name)
	}
	if name == "alias.example.org." {
		to := dnsmessage.MustNewName("www.example.org.")
		header := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: ttl}
		message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: to}})
		question.Name, name = to, to.String()
	}
	header := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: ttl}
	add := func(body dnsmessage.ResourceBody) {
		message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: body})
	}
	switch {
	case name == "www.example.org." && question.Type == dnsmessage.TypeA:
		add(&dnsmessage.AResource{A: [4]byte{192, 0, 2, 7}})
	case name == "www.example.org." && question.Type == dnsmessage.TypeAAAA:
		add(&dnsmessage.AAAAResource{AAAA: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 7}})
	case name == "crowd.example.org." && question.Type == dnsmessage.TypeA:
		for last := range crowd {
			add(&dnsmessage.AResource{A: [4]byte{198, 51, 100, byte(last)}})
		}
	case name != "www.example.org." && name != "crowd.example.org.":
		message.RCode = dnsmessage.RCodeNameError
	}
	if len(message.Answers) == 0 {
		nothing(&message)
	}
	return pack(message)
}

func nothing(message *dnsmessage.Message) {
	root := dnsmessage.MustNewName(".")
	header := dnsmessage.ResourceHeader{Name: root, Class: dnsmessage.ClassINET, TTL: ttl}
	zone := dnsmessage.SOAResource{NS: root, MBox: root, Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, MinTTL: ttl}
	message.Authorities = []dnsmessage.Resource{{Header: header, Body: &zone}}
}

func pack(message dnsmessage.Message) []byte {
	packed, err := message.Pack()
	if err != nil {
		log.Fatal(err)
	}
	return packed
}
