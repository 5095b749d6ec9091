package main

import (
	"time"

	accesslog "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	stdout "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcp "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// world is everything that is told: as users of Envoy write it, without a word of Leno's.
type world struct {
	clusters, endpoints, listeners, routes, secrets []types.Resource
}

func pack(message proto.Message) *anypb.Any {
	packed, err := anypb.New(message)
	if err != nil {
		panic(err)
	}
	return packed
}

func address(host string, port int) *core.Address {
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address:       host,
		PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

func ads() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}

// discovered is a cluster whose endpoints come by themselves.
func discovered(name string) *cluster.Cluster {
	return &cluster.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(5 * time.Second),
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: ads()},
	}
}

// given is a cluster that has its endpoints with it.
func given(name string, kind cluster.Cluster_DiscoveryType, ports ...int) *cluster.Cluster {
	return &cluster.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(time.Second),
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: kind},
		LbPolicy:             cluster.Cluster_ROUND_ROBIN,
		DnsLookupFamily:      cluster.Cluster_V4_ONLY,
		LoadAssignment:       assignment(name, ports...),
	}
}

func assignment(name string, ports ...int) *endpoint.ClusterLoadAssignment {
	group := &endpoint.LocalityLbEndpoints{}
	for _, port := range ports {
		at := &endpoint.Endpoint{Address: address("127.0.0.1", port)}
		group.LbEndpoints = append(group.LbEndpoints, &endpoint.LbEndpoint{
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: at},
		})
	}
	return &endpoint.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints:   []*endpoint.LocalityLbEndpoints{group},
	}
}

// routed is a route configuration with one route for everything.
func routed(name, to string) *route.RouteConfiguration {
	action := &route.RouteAction{ClusterSpecifier: &route.RouteAction_Cluster{Cluster: to}}
	return &route.RouteConfiguration{
		Name: name,
		VirtualHosts: []*route.VirtualHost{{
			Name:    "local_service",
			Domains: []string{"*"},
			Routes: []*route.Route{{
				Match:  &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
				Action: &route.Route_Route{Route: action},
			}},
		}},
	}
}

func manager() *hcm.HttpConnectionManager {
	return &hcm.HttpConnectionManager{
		CodecType:  hcm.HttpConnectionManager_AUTO,
		StatPrefix: "ingress_http",
		HttpFilters: []*hcm.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: pack(&router.Router{})},
		}},
		AccessLog: []*accesslog.AccessLog{{
			Name: "envoy.access_loggers.stdout",
			ConfigType: &accesslog.AccessLog_TypedConfig{
				TypedConfig: pack(&stdout.StdoutAccessLog{}),
			},
		}},
	}
}

func listening(name string, port int, filter string, config proto.Message) *listener.Listener {
	return &listener.Listener{
		Name:    name,
		Address: address("127.0.0.1", port),
		FilterChains: []*listener.FilterChain{{
			Filters: []*listener.Filter{{
				Name:       filter,
				ConfigType: &listener.Filter_TypedConfig{TypedConfig: pack(config)},
			}},
		}},
	}
}

const httpFilter = "envoy.filters.network.http_connection_manager"

// web is a listener for HTTP whose routes come under another name.
func web(name string, port int, routes string) *listener.Listener {
	http := manager()
	http.RouteSpecifier = &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{
		ConfigSource:    ads(),
		RouteConfigName: routes,
	}}
	return listening(name, port, httpFilter, http)
}

// inline is a listener for HTTP that has its routes with it.
func inline(name string, port int, to string) *listener.Listener {
	http := manager()
	http.RouteSpecifier = &hcm.HttpConnectionManager_RouteConfig{RouteConfig: routed(name, to)}
	return listening(name, port, httpFilter, http)
}

// opaque is a listener that passes bytes on.
func opaque(name string, port int, to string) *listener.Listener {
	return listening(name, port, "envoy.filters.network.tcp_proxy", &tcp.TcpProxy{
		StatPrefix:       "tcp",
		ClusterSpecifier: &tcp.TcpProxy_Cluster{Cluster: to},
	})
}
