//go:build !linux

package transport

import (
	"context"
	"errors"
	"net"
)

var errNoLane = errors.New("the local lane needs Linux")

func listenLane() (*net.UnixListener, string, error)          { return nil, "", errNoLane }
func dialLane(context.Context, string) (*net.UnixConn, error) { return nil, errNoLane }
func checkPeer(*net.UnixConn) error                           { return errNoLane }
func laneHost() (string, error)                               { return "", errNoLane }
