package shard

import (
	"slices"
	"time"
)

// A round is the works from one of the lowest layer to the next such one: a step of the coordinator, with all that it does between them.
// Whether following hints pays is found out by a trial, which alternates blocks of rounds with and without, so that what drifts affects
// both alike.
const (
	blockRounds   = 4    // of one kind, one after the other
	trialSamples  = 32   // rounds of each kind
	leastGain     = 0.99 // the time of rounds with hints, by that of rounds without, from which on they pay
	otherRounds   = 16   // rounds of another number of rows, one after the other, with which a trial starts anew
	followRounds  = 4096 // after which what pays is tried again
	restRounds    = 512  // after which what did not pay is tried again; each time it doesn't, twice as long
	mostRounds    = 8192
	longestRound  = 10 * time.Second // a longer one has waited for something else
	trialInterval = 2 * blockRounds
)

// verdict is what a trial found.
type verdict struct {
	With, Without time.Duration // the usual round
	Pays          bool
}

// payoff decides whether hints are followed. It is a pure state machine.
type payoff struct {
	resting bool // hints are not followed
	settled int  // rounds that are left until the next trial; 0: one is under way
	rest    int  // how long the next rest is
	rows    int  // of the rounds that count in the trial
	others  int  // rounds of other rows since the last that counted
	rounds  int  // of the trial
	with    []time.Duration
	without []time.Duration
	last    verdict
}

// follow says whether hints of the round that begins are followed.
func (p *payoff) follow() bool {
	if p.settled > 0 {
		return !p.resting
	}
	return p.rounds%trialInterval < blockRounds
}

// round takes a round that had hints and for which follow was asked. done: a trial has ended with it.
func (p *payoff) round(rows int, took time.Duration) (done bool) {
	if p.settled > 0 {
		if p.settled--; p.settled == 0 {
			p.begin(rows)
		}
		return false
	}
	if p.rounds == 0 {
		p.begin(rows)
	}
	followed, first := p.follow(), p.rounds%blockRounds == 0 // the first one of a block still has what the other kind left behind
	p.rounds++
	switch {
	case rows != p.rows:
		if p.others++; p.others == otherRounds {
			p.begin(rows)
		}
		return false
	case first || took > longestRound:
		return false
	}
	p.others = 0
	if followed {
		p.with = append(p.with, took)
	} else {
		p.without = append(p.without, took)
	}
	if len(p.with) < trialSamples || len(p.without) < trialSamples {
		return false
	}
	p.settle()
	return true
}

// begin begins a trial.
func (p *payoff) begin(rows int) {
	p.rows, p.others, p.rounds = rows, 0, 0
	p.with, p.without = p.with[:0], p.without[:0]
}

// settle ends a trial.
func (p *payoff) settle() {
	v := verdict{With: usual(p.with), Without: usual(p.without)}
	v.Pays = float64(v.With) < leastGain*float64(v.Without)
	p.last = v
	p.resting, p.settled = !v.Pays, followRounds
	if v.Pays {
		p.rest = 0
		return
	}
	p.rest = min(max(2*p.rest, restRounds), mostRounds)
	p.settled = p.rest
}

// usual is the mean of the middle half of some times.
func usual(times []time.Duration) time.Duration {
	slices.Sort(times)
	middle := times[len(times)/4 : len(times)-len(times)/4]
	var sum time.Duration
	for _, t := range middle {
		sum += t
	}
	return sum / time.Duration(len(middle))
}
