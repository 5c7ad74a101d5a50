package rpc

import (
	"context"
	"fmt"
	"log/slog"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// Servers implements operator.v1.ServerConfig.
type Servers struct {
	operatorv1.UnimplementedServerConfigServer
	Registry     Registry
	Availability availabilityv1.AvailabilityClient // has the offline log
	Verdicts     *Verdicts
	Logger       *slog.Logger
}

// act is one change of a server.
func (s *Servers) act(does, server string) act {
	return act{logger: s.Logger, by: registryService, does: does, server: server}
}

// ListServers lists servers.
func (s *Servers) ListServers(ctx context.Context, request *operatorv1.ListServersRequest) (*operatorv1.ListServersResponse, error) {
	page, err := s.Registry.Servers.ListServers(ctx, &registryv1.ListServersRequest{
		Type: request.GetType(), HasAgent: request.HasAgent, Query: request.GetQuery(),
		OrderBy: request.GetOrderBy(), PageSize: request.GetPageSize(), PageToken: request.GetPageToken(),
	})
	if err == nil {
		s.Verdicts.states(ctx, page.GetServers()...)
	}
	return &operatorv1.ListServersResponse{Servers: page.GetServers(), NextPageToken: page.GetNextPageToken(), Total: page.GetTotal()}, registryService.read(err, "")
}

// GetServer shows one server.
func (s *Servers) GetServer(ctx context.Context, request *operatorv1.GetServerRequest) (*registryv1.Server, error) {
	found, err := s.Registry.Servers.GetServer(ctx, &registryv1.GetServerRequest{Name: request.GetServer()})
	return s.withState(ctx, found.GetServer()), registryService.read(err, "")
}

// CreateServer creates one server.
func (s *Servers) CreateServer(ctx context.Context, request *operatorv1.CreateServerRequest) (*registryv1.Server, error) {
	created, err := change(ctx, s.act("create server", request.GetName()), s.Registry.Servers.CreateServer, &registryv1.CreateServerRequest{
		Name: request.GetName(), Url: request.GetUrl(), Type: request.GetType(), Active: request.Active, Actor: actor(ctx),
	})
	return s.withState(ctx, created.GetServer()), err
}

// UpdateServer changes one server.
func (s *Servers) UpdateServer(ctx context.Context, request *operatorv1.UpdateServerRequest) (*registryv1.Server, error) {
	return s.update(ctx, request.GetServer(), request.GetEtag(), &registryv1.UpdateServerRequest{
		Name: request.GetServer(), NewName: request.Name, Url: request.Url, Type: request.Type, Active: request.Active,
	})
}

// GetServerByKey shows one of several servers of one name.
func (s *Servers) GetServerByKey(ctx context.Context, request *operatorv1.GetServerByKeyRequest) (*registryv1.Server, error) {
	found, err := s.Registry.Servers.GetServer(ctx, &registryv1.GetServerRequest{ServerKey: request.GetKey()})
	return s.withState(ctx, found.GetServer()), registryService.read(err, "")
}

// UpdateServerByKey changes one of several servers of one name.
func (s *Servers) UpdateServerByKey(ctx context.Context, request *operatorv1.UpdateServerByKeyRequest) (*registryv1.Server, error) {
	return s.update(ctx, fmt.Sprintf("ServerKey %d", request.GetKey()), request.GetEtag(), &registryv1.UpdateServerRequest{
		ServerKey: request.GetKey(), NewName: request.Name, Url: request.Url, Type: request.Type, Active: request.Active,
	})
}

// update changes a server. What names it for the audit line.
func (s *Servers) update(ctx context.Context, what, given string, asked *registryv1.UpdateServerRequest) (*registryv1.Server, error) {
	etag, err := etag(ctx, given)
	if err != nil {
		return nil, err
	}
	asked.Etag, asked.Actor = etag, actor(ctx)
	updated, err := change(ctx, s.act("update server", what), s.Registry.Servers.UpdateServer, asked)
	return s.withState(ctx, updated.GetServer()), err
}

// withState puts into a server how it stands, where that can be had.
func (s *Servers) withState(ctx context.Context, server *registryv1.Server) *registryv1.Server {
	if server != nil {
		s.Verdicts.states(ctx, server)
	}
	return server
}

// ListOfflineLog reads a server's offline log.
func (s *Servers) ListOfflineLog(ctx context.Context, request *operatorv1.ListOfflineLogRequest) (*operatorv1.ListOfflineLogResponse, error) {
	page, err := s.Availability.ListOfflineLog(ctx, &availabilityv1.ListOfflineLogRequest{
		Server: request.GetServer(), StartAt: request.GetStartAt(), EndAt: request.GetEndAt(), PageSize: request.GetPageSize(), PageToken: request.GetPageToken(),
		OrderBy: request.GetOrderBy(),
	})
	return &operatorv1.ListOfflineLogResponse{Entries: page.GetEntries(), NextPageToken: page.GetNextPageToken()}, availabilityService.read(err, "")
}
