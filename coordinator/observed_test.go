package coordinator

import (
	"context"
	"testing"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/transport"
)

// TestObserved: what is counted of a step.
func TestObserved(t *testing.T) {
	t.Parallel()
	server, err := transport.StartServer(transport.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := transport.Connect(context.Background(), transport.ConnectOptions{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	requester, err := transport.NewRequester(conn, "c")
	if err != nil {
		t.Fatal(err)
	}
	defer requester.Close()
	members, err := membership.New(context.Background(), membership.Options{Requester: requester, Instance: "me",
		Model: placement.Model{Layers: []int{2}, Experts: 3, Parts: 1, PartBytes: []int64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer members.Close()
	var o observer
	call := &engine.ExpertCall{Layer: 2, Choices: []router.Choice{{Experts: []int32{0, 2}}, {}, {Experts: []int32{2}}}}
	o.observe(members, call, 3)
	if got := members.Routed()[2]; len(got) != 3 || got[0] != 1 || got[1] != 0 || got[2] != 2 {
		t.Fatal(got)
	}
}
