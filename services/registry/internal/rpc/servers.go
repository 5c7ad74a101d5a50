package rpc

import (
	"context"
	"strings"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/paging"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// Servers implements registry.v1.ServerCatalog.
type Servers struct {
	registryv1.UnimplementedServerCatalogServer
	Store *store.Store
}

// ListServers reads a page of servers.
func (s *Servers) ListServers(ctx context.Context, request *registryv1.ListServersRequest) (*registryv1.ListServersResponse, error) {
	order, err := paging.ParseOrder(request.GetOrderBy(), "name", "name", "url", "type", "key")
	if err != nil {
		return nil, err
	}
	filter := store.ServerFilter{Type: request.GetType(), HasAgent: choice(request.HasAgent), Query: request.GetQuery(), Sort: order.By, Descending: order.Descending}
	limit, after, err := page(request.GetPageSize(), request.GetPageToken(), filter)
	if err != nil {
		return nil, err
	}
	servers, next, total, err := s.Store.Servers(ctx, filter, limit, after)
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &registryv1.ListServersResponse{Total: int32(total)}
	for _, server := range servers {
		response.Servers = append(response.Servers, serverMessage(server))
	}
	response.NextPageToken, err = nextPage(next, filter)
	return response, err
}

// serverRef reads which server a request means.
func serverRef(name string, key int64) (store.ServerRef, error) {
	switch {
	case key < 0:
		return store.ServerRef{}, fault.Invalid("/serverKey", "must be above 0")
	case name == "" && key == 0:
		return store.ServerRef{}, fault.Invalid("/server", "is required: the server's name, or its serverKey")
	case name != "" && key != 0:
		return store.ServerRef{}, fault.Invalid("/serverKey", "must not be given beside a name: one of them says which server is meant")
	}
	return store.ServerRef{Name: name, Key: key}, nil
}

// GetServer reads one server.
func (s *Servers) GetServer(ctx context.Context, request *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
	ref, err := serverRef(request.GetName(), request.GetServerKey())
	if err != nil {
		return nil, err
	}
	server, err := s.Store.Server(ctx, ref)
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.GetServerResponse{Server: serverMessage(server)}, nil
}

// CreateServer creates one server.
func (s *Servers) CreateServer(ctx context.Context, request *registryv1.CreateServerRequest) (*registryv1.CreateServerResponse, error) {
	name, err := parseNewName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	if err := parseServerURL("/url", request.GetUrl()); err != nil {
		return nil, err
	}
	if err := parseLine("/type", request.GetType()); err != nil {
		return nil, err
	}
	kind := strings.TrimSpace(request.GetType())
	if kind == "" {
		kind = store.ServerType
	}
	server, err := s.Store.CreateServer(ctx, store.Server{
		Name: name.Spelling, URL: request.GetUrl(), Type: kind, Active: request.Active == nil || request.GetActive(),
	})
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.CreateServerResponse{Server: serverMessage(server)}, nil
}

// UpdateServer changes one server.
func (s *Servers) UpdateServer(ctx context.Context, request *registryv1.UpdateServerRequest) (*registryv1.UpdateServerResponse, error) {
	ref, err := serverRef(request.GetName(), request.GetServerKey())
	if err != nil {
		return nil, err
	}
	change := store.ServerChange{URL: request.Url, Type: request.Type, Active: request.Active}
	if request.NewName != nil {
		name, err := parseName("/name", request.GetNewName())
		if err != nil {
			return nil, err
		}
		change.Name = &name.Spelling
	}
	if request.Url != nil {
		if err := parseServerURL("/url", request.GetUrl()); err != nil {
			return nil, err
		}
	}
	if request.Type != nil {
		if err := parseLine("/type", request.GetType()); err != nil {
			return nil, err
		}
		kind := strings.TrimSpace(request.GetType())
		if kind == "" {
			return nil, fault.Invalid("/type", "must not be blank")
		}
		change.Type = &kind
	}
	server, err := s.Store.UpdateServer(ctx, ref, request.GetEtag(), change)
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.UpdateServerResponse{Server: serverMessage(server)}, nil
}
