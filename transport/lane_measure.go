package transport

import (
	"context"
	"errors"
	"slices"
	"time"
)

// LaneTimes are medians of the round trip of one layer's empty work for one row, on this host.
type LaneTimes struct {
	NATS  time.Duration `json:"nats"`  // ns
	Local time.Duration `json:"local"` // ns
}

const (
	measuredTrips  = 200
	measuredHidden = 2048
	measureLimit   = time.Minute // for a host with far more to do than CPUs
)

// MeasureLanes measures both lanes with a coordinator's and a worker's end in this process, over a NATS server of its own on loopback, in
// well under a second on an idle host. Between processes it is a little more on both.
func MeasureLanes(ctx context.Context) (LaneTimes, error) {
	ctx, cancel := context.WithTimeout(ctx, measureLimit)
	defer cancel()
	s, err := StartServer(ServerOptions{})
	if err != nil {
		return LaneTimes{}, err
	}
	defer s.Close()
	near, err := Connect(ctx, ConnectOptions{Server: s})
	if err != nil {
		return LaneTimes{}, err
	}
	defer near.Close()
	far, err := Connect(ctx, ConnectOptions{URL: s.URL(), Token: s.Token()})
	if err != nil {
		return LaneTimes{}, err
	}
	defer far.Close()
	responder, err := NewResponder(far, DefaultCluster, "measure", "i", emptyWork{})
	if err != nil {
		return LaneTimes{}, err
	}
	defer responder.Close()
	offer, err := responder.OfferLane(func(string, ...any) {})
	if err != nil {
		return LaneTimes{}, err
	}
	if err := far.Flush(ctx); err != nil {
		return LaneTimes{}, err
	}
	var times LaneTimes
	for _, lane := range []string{LaneNATS, LaneLocal} {
		r, err := NewRequester(near, DefaultCluster)
		if err != nil {
			return LaneTimes{}, err
		}
		to := &times.NATS
		if lane == LaneLocal {
			to = &times.Local
			err = r.UseLane(ctx, "measure", "i", offer, nil)
		}
		if err == nil {
			*to, err = r.measure(ctx)
		}
		r.Close()
		if err != nil {
			return LaneTimes{}, err
		}
	}
	return times, nil
}

// measure is the median round trip to worker "measure".
func (r *Requester) measure(ctx context.Context) (time.Duration, error) {
	x := r.NewExchange(1)
	w := &Work{Rows: 1, Hidden: measuredHidden, Values: make([]float32, measuredHidden), Offsets: []uint32{0, 0}}
	var took []time.Duration
	for range measuredTrips {
		w.Request = x.NextRequest()
		began := time.Now()
		if err := x.Send("measure", w); err != nil {
			return 0, err
		}
		for final := false; !final; {
			reply, ok := x.Receive(ctx, nil)
			switch {
			case !ok:
				return 0, context.Cause(ctx)
			case reply.Err != nil:
				return 0, reply.Err
			case reply.Result != nil:
				x.Recycle(reply.Result)
				final = true
			}
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// emptyWork answers with zeros.
type emptyWork struct{}

func (emptyWork) Work(_ context.Context, w *Work) (*Result, error) {
	return &Result{Rows: w.Rows, Hidden: w.Hidden, Sum: make([]int64, w.Rows*w.Hidden)}, nil
}

func (emptyWork) Assign(context.Context, *Assign) error { return errors.New("only measures") }
func (emptyWork) Refused(string)                        {}
func (emptyWork) Drain()                                {}
func (emptyWork) CoordinatorBeat(*CoordinatorBeat)      {}
