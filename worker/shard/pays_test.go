package shard

import (
	"testing"
	"time"
)

// rounds lets a payoff see rounds until a trial ends, at most n; with and without say how long they take.
func rounds(p *payoff, n int, rows func(i int) int, with, without time.Duration) (seen int, done bool) {
	for i := range n {
		took := without
		if p.follow() {
			took = with
		}
		took += time.Duration(i%7) * with / 100 // no two rounds are alike
		if p.round(rows(i), took) {
			return i + 1, true
		}
	}
	return n, false
}

func oneRow(int) int { return 1 }

func TestPayoff(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond

	t.Run("what gains is followed, and tried again", func(t *testing.T) {
		t.Parallel()
		var p payoff
		if !p.follow() {
			t.Fatal("a trial does not begin with hints")
		}
		if n, done := rounds(&p, 200, oneRow, 90*ms, 100*ms); !done || !p.last.Pays || !p.follow() || n > 100 {
			t.Fatalf("after %d rounds: %+v", n, p)
		}
		followed := 0
		for range followRounds {
			if p.follow() {
				followed++
			}
			if p.round(1, 90*ms) {
				t.Fatal("a trial ended too early")
			}
		}
		if followed != followRounds || p.settled != 0 {
			t.Fatalf("%d rounds of %d followed hints", followed, followRounds)
		}
		if _, done := rounds(&p, 200, oneRow, 100*ms, 90*ms); !done || p.last.Pays || p.follow() {
			t.Fatalf("what costs is still followed: %+v", p)
		}
	})

	t.Run("what gains nothing rests, each time for longer", func(t *testing.T) {
		t.Parallel()
		var p payoff
		rest := restRounds
		for range 8 {
			if _, done := rounds(&p, 200, oneRow, 100*ms, 100*ms); !done || p.last.Pays || p.follow() || !p.resting {
				t.Fatalf("%+v", p)
			}
			for i := range rest {
				if p.follow() {
					t.Fatalf("hints are followed in round %d of a rest of %d", i, rest)
				}
				p.round(1, 100*ms)
			}
			if !p.follow() {
				t.Fatalf("no trial after %d rounds", rest)
			}
			rest = min(2*rest, mostRounds)
		}
		// A change of fortune is found at the next trial.
		if _, done := rounds(&p, 200, oneRow, 50*ms, 100*ms); !done || !p.last.Pays || p.resting {
			t.Fatalf("%+v", p)
		}
	})

	t.Run("rounds that can't be compared don't count", func(t *testing.T) {
		t.Parallel()
		var p payoff
		// Every third round is of eight rows and takes longer; that is as often with hints as without.
		rows := func(i int) int {
			if i%3 == 2 {
				return 8
			}
			return 1
		}
		if _, done := rounds(&p, 400, rows, 90*ms, 100*ms); !done || !p.last.Pays {
			t.Fatalf("%+v", p)
		}
		// Other rows than before from now on: the trial starts anew with them.
		p = payoff{}
		rounds(&p, 10, oneRow, 90*ms, 100*ms)
		if _, done := rounds(&p, 400, func(int) int { return 4 }, 90*ms, 100*ms); !done || p.rows != 4 || !p.last.Pays {
			t.Fatalf("%+v", p)
		}
		// A pause is no step.
		p = payoff{}
		for i := range 200 {
			if took := 90 * ms; i%5 == 0 && p.round(1, time.Hour) || i%5 != 0 && p.round(1, took) {
				break
			}
		}
		if p.last.With > time.Second || p.last.Without > time.Second {
			t.Fatalf("%+v", p.last)
		}
	})
}
