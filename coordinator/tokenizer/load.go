package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limits of what a file may ask for.
const (
	maxFileBytes  = 512 << 20
	maxDepth      = 16   // of sequences in sequences
	maxAddedBytes = 1024 // of one added token's content
	// ids may leave gaps, but a table by id must not be out of proportion to the file
	idSlack = 1 << 16
)

// Load reads tokenizer.json in dir, and of tokenizer_config.json (if there is one) the added tokens that tokenizer.json lacks and
// add_bos_token / add_eos_token. The latter count only where tokenizer.json's post-processor adds no tokens itself: it is the
// authority.
func Load(dir string) (*Tokenizer, error) {
	path := filepath.Join(dir, "tokenizer.json")
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	configPath := filepath.Join(dir, "tokenizer_config.json")
	config, err := readFile(configPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := New(data, config)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	return t, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: %d bytes is too large (at most %d)", path, info.Size(), maxFileBytes)
	}
	return io.ReadAll(io.LimitReader(f, maxFileBytes))
}

type file struct {
	Version       string           `json:"version"`
	AddedTokens   []addedTokenFile `json:"added_tokens"`
	Normalizer    json.RawMessage  `json:"normalizer"`
	PreTokenizer  json.RawMessage  `json:"pre_tokenizer"`
	PostProcessor json.RawMessage  `json:"post_processor"`
	Decoder       json.RawMessage  `json:"decoder"`
	Model         json.RawMessage  `json:"model"`
}

// addedTokenFile is an entry of added_tokens; its id is checked, not used (see newAddedTokens).
type addedTokenFile struct {
	ID int64 `json:"id"`
	addedToken
}

// New makes a tokenizer from the contents of tokenizer.json and tokenizer_config.json; the latter may be empty.
func New(tokenizerJSON, configJSON []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(tokenizerJSON, &f); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json: %w", err)
	}
	if f.Version != "" && f.Version != "1.0" {
		return nil, fmt.Errorf("version %q is not supported (only 1.0)", f.Version)
	}
	config, err := parseConfig(configJSON)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	t := &Tokenizer{}
	if t.normalizer, err = parseNormalizer(f.Normalizer, 0); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if t.preTokenizers, err = parsePreTokenizer(f.PreTokenizer, 0); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	t.byteLevel = keepBytesLast(t.preTokenizers)
	if t.model, err = parseModel(f.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.addTokens(f.AddedTokens, config.AddedTokensDecoder); err != nil {
		return nil, err
	}
	if err := t.resolveUnknown(f.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.indexTokens(); err != nil {
		return nil, err
	}
	if t.template, err = parsePostProcessor(f.PostProcessor, t.Size()); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if t.template == nil {
		if t.template, err = config.template(t); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	if t.decoders, err = parseDecoder(f.Decoder, 0); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return t, nil
}

// addTokens puts the file's added tokens in place, then those that only tokenizer_config.json has, by their number there, as
// transformers does.
func (t *Tokenizer) addTokens(tokens []addedTokenFile, decoder map[string]addedToken) error {
	var all []addedToken
	have := map[string]bool{}
	for _, a := range tokens {
		all = append(all, a.addedToken)
		have[a.Content] = true
	}
	numbers := slices.SortedFunc(maps.Keys(decoder), func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		if x != y {
			return x - y
		}
		return strings.Compare(a, b)
	})
	for _, n := range numbers {
		if a := decoder[n]; !have[a.Content] {
			all = append(all, a)
			have[a.Content] = true
		}
	}
	for _, a := range all {
		if len(a.Content) > maxAddedBytes {
			return fmt.Errorf("added_tokens: content of %d bytes is too long (at most %d): %.40q…", len(a.Content), maxAddedBytes, a.Content)
		}
	}
	t.added = newAddedTokens(all, t.model.vocab, t.normalizer)
	return nil
}

// indexTokens makes the tables by id.
func (t *Tokenizer) indexTokens() error {
	size := 0
	for _, id := range t.model.vocab {
		size = max(size, int(id)+1)
	}
	for id := range t.added.byID {
		size = max(size, int(id)+1)
	}
	if limit := 4*(len(t.model.vocab)+len(t.added.byID)) + idSlack; size > limit {
		return fmt.Errorf("id %d is out of proportion to %d tokens", size-1, len(t.model.vocab)+len(t.added.byID))
	}
	t.tokens, t.known, t.special = make([]string, size), make([]bool, size), make([]bool, size)
	for token, id := range t.model.vocab {
		// Two tokens with one id are an oddity; the same one must win every time.
		if !t.known[id] || token < t.tokens[id] {
			t.tokens[id], t.known[id] = token, true
		}
	}
	specials := map[string]bool{}
	for id, a := range t.added.byID {
		t.tokens[id], t.known[id] = a.Content, true
		if a.Normalized && t.normalizer != nil {
			t.tokens[id] = t.normalizer.normalize(a.Content)
		}
		if a.Special {
			specials[a.Content] = true
		}
	}
	for id, token := range t.tokens {
		t.special[id] = t.known[id] && specials[token]
	}
	return nil
}

// isNull says whether a part of the file is absent or null.
func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}

// kindOf reads the "type" of a stage.
func kindOf(raw json.RawMessage) (string, error) {
	var k struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		return "", err
	}
	if k.Type == "" {
		return "", errors.New(`no "type"`)
	}
	return k.Type, nil
}

func unknownKind(kind string, known ...string) error {
	return fmt.Errorf("kind %q is not supported (known: %s)", kind, strings.Join(known, ", "))
}

var errTooDeep = fmt.Errorf("sequences nested deeper than %d", maxDepth)
