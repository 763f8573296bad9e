package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Metrics are a coordinator's, at one moment.
type Metrics map[string]*dto.MetricFamily

// Scrape asks for them; the address has a port.
func Scrape(address string) (Metrics, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim))) // text has no native histograms
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: %s", address, response.Status)
	}
	decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header))
	m := Metrics{}
	for {
		family := &dto.MetricFamily{}
		err := decoder.Decode(family)
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, err
		}
		m[family.GetName()] = family
	}
}

// Sum adds a counter or gauge over its labels; 0 if there is none.
func (m Metrics) Sum(name string) (sum float64) {
	if m[name] == nil {
		return 0
	}
	for _, metric := range m[name].Metric {
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sum
}

// Distribution is what a native histogram holds: its buckets' counts by their number, over all labels.
type Distribution struct {
	schema int32
	counts map[int32]int64
}

// Distribution gives a native histogram's.
func (m Metrics) Distribution(name string) Distribution {
	d := Distribution{counts: map[int32]int64{}}
	if m[name] == nil {
		return d
	}
	for _, metric := range m[name].Metric {
		h := metric.GetHistogram()
		d.schema = h.GetSchema()
		bucket, count, delta := int32(0), int64(0), 0
		for _, span := range h.GetPositiveSpan() {
			bucket += span.GetOffset()
			for range span.GetLength() {
				count += h.GetPositiveDelta()[delta] // counts are stored as differences
				d.counts[bucket] += count
				bucket++
				delta++
			}
		}
	}
	return d
}

// Since takes away what was there before.
func (d Distribution) Since(before Distribution) Distribution {
	after := Distribution{schema: d.schema, counts: map[int32]int64{}}
	for bucket, n := range d.counts {
		after.counts[bucket] = n - before.counts[bucket]
	}
	return after
}

// Count is the number of observations.
func (d Distribution) Count() (n int64) {
	for _, c := range d.counts {
		n += c
	}
	return n
}

// Quantile gives the upper end of the bucket that holds the q-th of the observations, in seconds; bucket i ends at 2^(i·2^-schema).
func (d Distribution) Quantile(q float64) float64 {
	buckets := make([]int32, 0, len(d.counts))
	for bucket := range d.counts {
		buckets = append(buckets, bucket)
	}
	slices.Sort(buckets)
	rank, seen := int64(math.Ceil(q*float64(d.Count()))), int64(0)
	for _, bucket := range buckets {
		if seen += d.counts[bucket]; seen >= rank && seen > 0 {
			return math.Exp2(float64(bucket) * math.Exp2(-float64(d.schema)))
		}
	}
	return math.NaN()
}

// leads says whether a coordinator answers at /readyz that its workers are ready; those of a standby are none.
func leads(address string) bool {
	client := http.Client{Timeout: time.Second}
	response, err := client.Get("http://" + address + "/readyz")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var answer struct {
		Ready   bool              `json:"ready"`
		Workers map[string]string `json:"workers"`
	}
	return json.NewDecoder(response.Body).Decode(&answer) == nil && answer.Ready && len(answer.Workers) > 0
}
