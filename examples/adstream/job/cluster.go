package job

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is the NATS servers of the nodes that are in this process. Its methods may be called by one goroutine.
type Cluster struct {
	placement *Placement
	nodes     []*Node // of this process
	servers   []*server.Server
	dir       string // what JetStream keeps: the log of its own agreement, as tables and counts are in memory
}

// StartCluster starts the server of a node, or of all nodes in this process if the name is "". The cluster works once a majority of
// its nodes is there.
func StartCluster(p *Placement, node string) (c *Cluster, err error) {
	c = &Cluster{placement: p}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; node == "" || n.Name == node {
			c.nodes = append(c.nodes, n)
		}
	}
	if len(c.nodes) == 0 {
		return nil, fmt.Errorf("start node %q: the placement has no such node", node)
	}
	if c.dir, err = os.MkdirTemp("", "adstream-"); err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, n := range c.nodes {
		s, err := server.NewServer(c.options(n))
		if err != nil {
			return nil, fmt.Errorf("start node %q: %w", n.Name, err)
		}
		c.servers = append(c.servers, s)
		s.Start()
	}
	for i, s := range c.servers {
		if !s.ReadyForConnections(20 * time.Second) {
			return nil, fmt.Errorf("start node %q: nothing answers on %s: is the port taken?", c.nodes[i].Name, c.nodes[i].client())
		}
	}
	return c, nil
}

func (c *Cluster) options(n *Node) *server.Options {
	o := &server.Options{
		ServerName: n.Name, Host: n.Address, Port: n.ClientPort, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: c.dir + "/" + n.Name, JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 1 << 30,
		DisableJetStreamBanner: true,
	}
	if len(c.placement.Nodes) > 1 {
		o.Cluster = server.ClusterOpts{Name: "adstream", Host: n.Address, Port: n.ClusterPort, PoolSize: 1}
		for i := range c.placement.Nodes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: c.placement.Nodes[i].cluster()})
		}
	}
	return o
}

// replicas is on how many nodes a table is kept.
func (c *Cluster) replicas() int {
	if len(c.placement.Nodes) < 3 {
		return 1
	}
	return 3
}

// connect makes a connection to the node's own server.
func (c *Cluster) connect(n *Node, name string) (*nats.Conn, error) {
	conn, err := nats.Connect("nats://"+n.client(), nats.Name(name), nats.NoReconnect())
	if err != nil {
		return nil, fmt.Errorf("connect %s to %s: %w", name, n.client(), err)
	}
	return conn, nil
}

// table opens a bucket of the key-value store, and makes it where that is this caller's part; entries stay in it for keep, 0 for ever. It tries until ctx ends: a cluster that starts
// takes some seconds to agree on who leads.
func (c *Cluster) table(ctx context.Context, conn *nats.Conn, bucket string, make bool, keep time.Duration) (jetstream.KeyValue, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("open table %q: %w", bucket, err)
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		var kv jetstream.KeyValue
		if make {
			kv, err = js.CreateKeyValue(attempt, jetstream.KeyValueConfig{
				Bucket: bucket, Storage: jetstream.MemoryStorage, Replicas: c.replicas(), TTL: keep,
			})
		} else {
			kv, err = js.KeyValue(attempt, bucket)
		}
		cancel()
		if err == nil {
			return kv, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("open table %q: %w: %w", bucket, context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Close stops the servers and removes what they kept.
func (c *Cluster) Close() error {
	for _, s := range c.servers {
		s.Shutdown()
	}
	for _, s := range c.servers {
		s.WaitForShutdown()
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("stop cluster: %w", err)
	}
	return nil
}
