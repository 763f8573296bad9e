package forecast

import (
	"errors"
	"math"
	"testing"
)

const hosts = "hosts: [{name: a, nodes: 2, " + host + ", round_trip_us: 200}]"

// TestSimulationAgrees: without noise the dispatcher's own decisions on virtual workers take what the forecast's sum says.
func TestSimulationAgrees(t *testing.T) {
	t.Parallel()
	m := testModel(1)
	for _, workers := range []int{2, 4, 8, 32} {
		for _, rows := range []int{1, 8} {
			o := Options{Rows: rows, Context: 100}
			s, err := Simulate(m, cluster(t, hosts), o, Noise{}, workers)
			if err != nil {
				t.Fatal(err)
			}
			grown, err := cluster(t, hosts).grown(workers)
			if err != nil {
				t.Fatal(err)
			}
			f := compute(t, m, grown, o)
			layer := 1e3 * (f.Step.Seconds() - f.Step.Dense - f.Step.Attention) / float64(len(m.Layers))
			if s.Workers != workers || s.HedgesPerStep != 0 || math.Abs(s.LayerMean-layer) > 0.1*layer {
				t.Errorf("%d workers, %d rows: %+v, the forecast's layer takes %.3f ms", workers, rows, s, layer)
			}
			if s.Asked > float64(min(workers, 8*rows)) || s.Asked < 1 {
				t.Errorf("%d workers, %d rows: %.1f are asked", workers, rows, s.Asked)
			}
		}
	}
}

// TestSimulatedNoise: stragglers make the slowest layers slow, and the same seed gives the same times.
func TestSimulatedNoise(t *testing.T) {
	t.Parallel()
	run := func(n Noise) *Simulated {
		s, err := Simulate(testModel(1), cluster(t, hosts), Options{Rows: 8}, n, 16)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	quiet, noisy := run(Noise{}), run(Noise{Deviation: 0.1, Stragglers: 0.01})
	if noisy.LayerP99 < 3*quiet.LayerP99 || noisy.LayerP50 < quiet.LayerP50 {
		t.Errorf("quiet %+v, noisy %+v", quiet, noisy)
	}
	if again := run(Noise{Deviation: 0.1, Stragglers: 0.01}); again.LayerP99 != noisy.LayerP99 || again.LayerP50 != noisy.LayerP50 || again.Asked != noisy.Asked {
		t.Errorf("%+v, then %+v", noisy, again)
	}
}

func TestSimulationErrors(t *testing.T) {
	t.Parallel()
	for _, wrong := range []struct {
		noise   Noise
		workers int
	}{{Noise{Deviation: -1}, 2}, {Noise{Stragglers: 2}, 2}, {Noise{Deviation: math.NaN()}, 2}, {Noise{}, 0}, {Noise{}, -5}} {
		if _, err := Simulate(testModel(1), cluster(t, hosts), Options{Rows: 1}, wrong.noise, wrong.workers); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if _, err := Simulate(testModel(1), cluster(t, hosts), Options{Rows: 1}, Noise{}, 1<<20); err == nil {
		t.Error("more hosts than are possible were taken")
	}
}
