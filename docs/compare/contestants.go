package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// weightFormat is one size of weights in each contestant's words.
type weightFormat struct {
	moepool, gguf string
	kt            []string // methods of bench_kt.py
}

var weightFormats = map[string]weightFormat{
	"8":  {"q8", "Q8_0", []string{"INT8"}},
	"4":  {"q4", "Q4_0", []string{"RAWINT4"}},
	"16": {"bf16", "BF16", []string{"BF16"}},
}

// sample is the figure of one test in one round: milliseconds of a layer, else tokens per second.
type sample struct {
	test  string
	value float64
}

// contestant is one program with its settings.
type contestant struct {
	name    string
	measure func(ctx context.Context) ([]sample, error)
}

// contestants lists those of a test that are there; the first is moepool.
func (o *options) contestants(test string, w weightFormat) ([]contestant, error) {
	gguf := filepath.Join(o.work, "m/q3/qwen3-30b-a3b-like-"+w.gguf+".gguf")
	model := filepath.Join(o.work, "m/q3/hf")
	llama, ik := filepath.Join(o.work, "llama/build/bin"), filepath.Join(o.work, "ikl/build/bin")
	half := max(1, o.threads/2)
	var list []contestant
	switch test {
	case "layer":
		list = append(list, contestant{"moepool " + w.moepool, func(ctx context.Context) ([]sample, error) {
			return o.moepoolRows(ctx, append([]string{"bench", "layer", "--layers", "4", "--format", w.moepool}, threads(o.threads)...))
		}})
		list = append(list, contestant{"llama.cpp " + w.gguf, func(ctx context.Context) ([]sample, error) {
			return layerLines(output(ctx, filepath.Join(o.work, "ggml_moe"), gguf, strconv.Itoa(o.threads), "1,8,64,512", "1", "0", "-"))
		}})
		script := filepath.Join(o.scripts, "bench_kt.py")
		if _, err := os.Stat(script); err != nil {
			break
		}
		// Its dispatcher thread always spins: few rows are quicker with a thread less.
		for _, n := range []int{o.threads, o.threads - 1} {
			if n < 1 {
				continue
			}
			for _, method := range w.kt {
				list = append(list, contestant{fmt.Sprintf("kt-kernel %s, %d workers", method, n), func(ctx context.Context) ([]sample, error) {
					return ktRows(ctx, filepath.Join(o.work, "v/bin/python"), script, filepath.Join(o.work, "kt"), filepath.Join(o.work, "m/q3"), method, n)
				}})
			}
		}
	case "model":
		for _, lane := range []string{"local", "nats"} {
			list = append(list, contestant{"moepool " + w.moepool + ", " + lane, func(ctx context.Context) ([]sample, error) {
				return o.moepoolRows(ctx, append([]string{"bench", "model", "--model", model, "--format", w.moepool, "--dense-format", w.moepool, "--lane", lane, "--reps", "2"}, threads(o.threads)...))
			}})
		}
		list = append(list, contestant{"llama.cpp " + w.gguf, func(ctx context.Context) ([]sample, error) {
			return llamaRows(output(ctx, filepath.Join(llama, "llama-bench"), "-m", gguf, "-t", strconv.Itoa(o.threads), "-p", "512,64", "-n", "32", "-r", "2", "-o", "json"))
		}})
		if _, err := os.Stat(filepath.Join(ik, "llama-bench")); err == nil {
			list = append(list, contestant{"ik_llama.cpp " + w.gguf, func(ctx context.Context) ([]sample, error) {
				return llamaRows(output(ctx, filepath.Join(ik, "llama-bench"), "-m", gguf, "-t", strconv.Itoa(o.threads), "-p", "512,64", "-n", "32", "-r", "2", "-o", "json", "-fa", "0", "-rtr", "1"))
			}})
		}
	case "rpc":
		if w.gguf == "BF16" {
			return nil, nil // llama.cpp's RPC figures are of quantised weights
		}
		list = append(list, contestant{"moepool " + w.moepool + ", 2 workers", func(ctx context.Context) ([]sample, error) {
			return o.moepoolRows(ctx, append([]string{"bench", "model", "--model", model, "--format", w.moepool, "--dense-format", w.moepool, "--lane", "local", "--workers", "2", "--pp", "64", "--reps", "2"}, threads(half)...))
		}})
		list = append(list, contestant{"llama.cpp RPC, 2 servers", func(ctx context.Context) ([]sample, error) {
			return rpcRows(ctx, llama, gguf, half)
		}})
	default:
		return nil, fmt.Errorf("--tests %s: layer, model and rpc are known", test)
	}
	return list, nil
}

// moepoolRows reads moepool's JSON rows.
func (o *options) moepoolRows(ctx context.Context, arguments []string) ([]sample, error) {
	out, err := output(ctx, o.moepool, append(arguments, "--json", "--quiet")...)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		Test            string
		Rows            int
		BestMS          float64 `json:"best_ms"`
		TokensPerSecond float64 `json:"tokens_per_s"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return nil, fmt.Errorf("moepool's rows: %w", err)
	}
	var list []sample
	for _, r := range rows {
		if r.Test == "layer" {
			list = append(list, sample{fmt.Sprintf("%d rows", r.Rows), r.BestMS})
		} else {
			list = append(list, sample{r.Test, r.TokensPerSecond})
		}
	}
	return list, nil
}

// layerLines reads the JSON lines of ggml_moe and bench_kt.py: the best time of each number of rows.
func layerLines(out []byte, err error) ([]sample, error) {
	if err != nil {
		return nil, err
	}
	var list []sample
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte("{")) {
			continue
		}
		var row struct {
			Batch  int
			BestMS float64 `json:"best_ms"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, err
		}
		list = append(list, sample{fmt.Sprintf("%d rows", row.Batch), row.BestMS})
	}
	if len(list) == 0 {
		return nil, errors.New("it printed no figures")
	}
	return list, nil
}

// ktRows calls bench_kt.py, which appends its rows to a file.
func ktRows(ctx context.Context, python, script, kt, model, method string, workers int) ([]sample, error) {
	folder, err := os.MkdirTemp("", "moepool-compare-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "kt.jsonl")
	if _, err := output(ctx, python, script, kt, model, "--methods", method, "--threads", strconv.Itoa(workers), "--seconds", "1", "--json", file); err != nil {
		return nil, err
	}
	return layerLines(os.ReadFile(file))
}

// llamaRows reads llama-bench's JSON.
func llamaRows(out []byte, err error) ([]sample, error) {
	if err != nil {
		return nil, err
	}
	var rows []struct {
		Prompt    int     `json:"n_prompt"`
		Generated int     `json:"n_gen"`
		Average   float64 `json:"avg_ts"`
	}
	if from := bytes.IndexByte(out, '['); from < 0 {
		return nil, errors.New("llama-bench printed no figures")
	} else if err := json.Unmarshal(out[from:], &rows); err != nil {
		return nil, fmt.Errorf("llama-bench's rows: %w", err)
	}
	var list []sample
	for _, r := range rows {
		test := fmt.Sprint("pp", r.Prompt)
		if r.Generated > 0 {
			test = fmt.Sprint("tg", r.Generated)
		}
		list = append(list, sample{test, r.Average})
	}
	return list, nil
}

// rpcRows runs llama-bench over two RPC servers on loopback.
func rpcRows(ctx context.Context, binaries, gguf string, threads int) ([]sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var servers []string
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		address := listener.Addr().String()
		listener.Close()
		_, port, _ := net.SplitHostPort(address)
		server := exec.CommandContext(ctx, filepath.Join(binaries, "ggml-rpc-server"), "-H", "127.0.0.1", "-p", port, "-t", strconv.Itoa(threads))
		if err := server.Start(); err != nil {
			return nil, err
		}
		defer server.Wait()
		defer server.Process.Kill()
		servers = append(servers, address)
	}
	for _, address := range servers {
		for {
			connection, err := net.Dial("tcp", address)
			if err == nil {
				connection.Close()
				break
			}
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("RPC server %s: %w", address, err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return llamaRows(output(ctx, filepath.Join(binaries, "llama-bench"), "-m", gguf, "-t", "1", "-p", "64", "-n", "32", "-r", "2", "-o", "json",
		"-ngl", "99", "--rpc", strings.Join(servers, ",")))
}
