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

// Cluster contains the NATS servers of this process's nodes. Only one goroutine may use it.
type Cluster struct {
	placement *Placement
	nodes     []*Node // the nodes of this process
	servers   []*server.Server
	dir       string // JetStream's own files; tables and counts are in memory
}

// StartCluster starts the server of a node, or the servers of all nodes if node is "". The cluster
// works once a majority of its nodes has started.
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
			return nil, fmt.Errorf("start node %q: nothing answers on %s: is the port taken?",
				c.nodes[i].Name, c.nodes[i].client())
		}
	}
	return c, nil
}

func (c *Cluster) options(n *Node) *server.Options {
	o := &server.Options{
		ServerName: n.Name, Host: n.Address, Port: n.ClientPort, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: c.dir + "/" + n.Name,
		JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 1 << 30,
		DisableJetStreamBanner: true,
	}
	if len(c.placement.Nodes) > 1 {
		o.Cluster = server.ClusterOpts{
			Name: "adstream", Host: n.Address, Port: n.ClusterPort, PoolSize: 1,
		}
		for i := range c.placement.Nodes {
			route := &url.URL{Scheme: "nats", Host: c.placement.Nodes[i].cluster()}
			o.Routes = append(o.Routes, route)
		}
	}
	return o
}

// replicaCount returns the number of nodes that store a copy of a table.
func (c *Cluster) replicaCount() int {
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

// openTable opens a bucket of the key-value store. If the argument make is true, it creates the
// bucket if necessary. The argument keep is how long entries stay in the bucket; 0 means forever.
// The method tries again until ctx ends, because a starting cluster needs some seconds to agree on
// a leader.
func (c *Cluster) openTable(
	ctx context.Context, conn *nats.Conn, bucket string, make bool, keep time.Duration,
) (jetstream.KeyValue, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("open table %q: %w", bucket, err)
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		var kv jetstream.KeyValue
		if make {
			kv, err = js.CreateKeyValue(attempt, jetstream.KeyValueConfig{
				Bucket: bucket, Storage: jetstream.MemoryStorage,
				Replicas: c.replicaCount(), TTL: keep,
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

// Close stops the servers and removes their files.
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
