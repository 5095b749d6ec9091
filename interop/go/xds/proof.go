package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"time"
)

// authority issues certificates of the web's kind.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func issue(name string, by *authority) (tls.Certificate, *authority) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  by == nil,
		BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		},
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	parent, signer := template, key
	if by == nil {
		template.KeyUsage |= x509.KeyUsageCertSign
	} else {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		&authority{leaf, key}
}

// write puts a certificate and its key beside each other.
func write(folder, name string, of tls.Certificate) error {
	key, err := x509.MarshalPKCS8PrivateKey(of.PrivateKey)
	if err != nil {
		return err
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.Certificate[0]})
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	return first(
		func() error { return os.WriteFile(folder+"/"+name+".pem", chain, 0o600) },
		func() error { return os.WriteFile(folder+"/"+name+".key", text, 0o600) },
	)
}

// mutual has both sides prove who they are by certificates that are none of the mesh.
func mutual(of settings) error {
	root, ca := issue("root", nil)
	server, _ := issue("xds.test", ca)
	client, _ := issue("client.test", ca)
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	p, err := begin("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{server},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
	})
	if err != nil {
		return err
	}
	a, port := serve("a"), free()
	err = first(
		func() error { return p.tell(simple(port, a.port)) },
		func() error { return write(of.folder, "root", root) },
		func() error { return write(of.folder, "client", client) },
	)
	if err != nil {
		return err
	}
	section := func(name, own string) string {
		return p.section(of.whole, fmt.Sprintf(
			"tls: {name: %s, trustBundle: root.pem%s}", name, own))
	}
	own := ", certificate: client.pem, key: client.key"
	for why, section := range map[string]string{
		"not valid for name":    section("other.test", own),
		"the connection failed": section("xds.test", ""),
	} {
		s, err := launch(of, section)
		if err != nil {
			return err
		}
		err = until("it says "+why, func() bool { return contains(s.said(), why) == nil })
		s.end()
		if err != nil {
			return err
		}
	}
	if p.said != nil {
		return fmt.Errorf("something was said to a stranger: %v", p.said)
	}
	s, err := launch(of, section("xds.test", own))
	if err != nil {
		return err
	}
	defer s.end()
	return first(s.ready, func() error { return becomes(port, "a") })
}

// local goes over a unix socket.
func local(of settings) error {
	path := of.folder + "/xds.sock"
	os.Remove(path)
	p, err := begin("unix", path, nil)
	if err != nil {
		return err
	}
	a, port := serve("a"), free()
	if err := p.tell(simple(port, a.port)); err != nil {
		return err
	}
	s, err := launch(of, p.section(of.whole, "tls: plaintext"))
	if err != nil {
		return err
	}
	defer s.end()
	return first(s.ready, func() error { return becomes(port, "a") })
}
