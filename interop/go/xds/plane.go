package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// node is what the sidecar calls itself.
const node = "test-id"

// request is what the sidecar has said, in either variant.
type request struct {
	node, kind, version, nonce, refusal string
	names, dropped                      []string
}

// plane is a control plane that can be stopped and started again at the same place.
type plane struct {
	network, address string
	security         *tls.Config
	snapshots        cache.SnapshotCache
	grpc             *grpc.Server
	version          int

	mutex sync.Mutex
	said  []request
}

// begin starts a control plane somewhere.
func begin(network, address string, security *tls.Config) (*plane, error) {
	p := &plane{network: network, address: address, security: security}
	return p, p.start()
}

// start makes a new process of it, which has seen nobody and counts versions from one.
func (p *plane) start() error {
	p.snapshots = cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	p.version = 0
	listener, err := net.Listen(p.network, p.address)
	if err != nil {
		return err
	}
	p.address = listener.Addr().String()
	var options []grpc.ServerOption
	if p.security != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(p.security)))
	}
	p.grpc = grpc.NewServer(options...)
	hear := server.CallbackFuncs{
		StreamRequestFunc:      p.hear,
		StreamDeltaRequestFunc: p.hearDelta,
	}
	told := server.NewServer(context.Background(), p.snapshots, hear)
	discovery.RegisterAggregatedDiscoveryServiceServer(p.grpc, told)
	go p.grpc.Serve(listener)
	return nil
}

// stop ends all streams in the middle of whatever they do.
func (p *plane) stop() { p.grpc.Stop() }

// tell replaces everything.
func (p *plane) tell(of world) error {
	p.version++
	told, err := cache.NewSnapshot(strconv.Itoa(p.version), map[resource.Type][]types.Resource{
		resource.ClusterType:  of.clusters,
		resource.EndpointType: of.endpoints,
		resource.ListenerType: of.listeners,
		resource.RouteType:    of.routes,
		resource.SecretType:   of.secrets,
	})
	if err != nil {
		return err
	}
	return p.snapshots.SetSnapshot(context.Background(), node, told)
}

func (p *plane) hear(_ int64, message *discovery.DiscoveryRequest) error {
	p.note(request{
		node:    message.GetNode().GetId(),
		kind:    message.TypeUrl,
		version: message.VersionInfo,
		nonce:   message.ResponseNonce,
		refusal: message.GetErrorDetail().GetMessage(),
		names:   message.ResourceNames,
	})
	return nil
}

func (p *plane) hearDelta(_ int64, message *discovery.DeltaDiscoveryRequest) error {
	p.note(request{
		node:    message.GetNode().GetId(),
		kind:    message.TypeUrl,
		nonce:   message.ResponseNonce,
		refusal: message.GetErrorDetail().GetMessage(),
		names:   message.ResourceNamesSubscribe,
		dropped: message.ResourceNamesUnsubscribe,
	})
	return nil
}

func (p *plane) note(said request) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.said = append(p.said, said)
}

// heard gives what was said of one kind so far.
func (p *plane) heard(kind resource.Type) []request {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var of []request
	for _, said := range p.said {
		if said.kind == kind {
			of = append(of, said)
		}
	}
	return of
}

// refused gives why something of a kind was refused last.
func (p *plane) refused(kind resource.Type) string {
	for said := p.heard(kind); len(said) > 0; said = said[:len(said)-1] {
		if why := said[len(said)-1].refusal; why != "" {
			return why
		}
	}
	return ""
}

// section is how the sidecar is configured for it.
func (p *plane) section(whole bool, more string) string {
	variant, address := "delta", p.address
	if whole {
		variant = "stateOfTheWorld"
	}
	if p.network == "unix" {
		address = "unix:" + address
	}
	return fmt.Sprintf("addresses: [%q], xds: %s, node: {id: %s}, %s", address, variant, node, more)
}
