package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moepool/moepool/coordinator/template/jinja"
)

const maxFileBytes = 64 << 20 // tokenizer_config.json may list many added tokens

// Load reads the chat template of a model folder; nil without error if the model has none. It looks, as Hugging Face does, for
// chat_template.jinja, then for chat_template in tokenizer_config.json (a string, or a list of named templates), then for
// chat_template.json.
func Load(dir string) (*Template, error) {
	var config struct {
		tokenNames
		ChatTemplate json.RawMessage `json:"chat_template"`
	}
	if err := readJSON(filepath.Join(dir, "tokenizer_config.json"), &config); err != nil {
		return nil, err
	}
	t := &Template{named: map[string]*jinja.Template{}, special: map[string]jinja.Value{}, now: time.Now}
	for name, content := range config.tokenNames.byName() {
		t.special[name] = content
	}
	path := filepath.Join(dir, "chat_template.jinja")
	source, err := read(path)
	switch {
	case err == nil:
		if err := t.add(defaultName, string(source)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return t, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	path = filepath.Join(dir, "tokenizer_config.json")
	raw := config.ChatTemplate
	if isNull(raw) {
		var file struct {
			ChatTemplate json.RawMessage `json:"chat_template"`
		}
		path = filepath.Join(dir, "chat_template.json")
		if err := readJSON(path, &file); err != nil {
			return nil, err
		}
		raw = file.ChatTemplate
	}
	if isNull(raw) {
		return nil, nil
	}
	if err := t.addAll(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// addAll reads the two forms of chat_template.
func (t *Template) addAll(raw json.RawMessage) error {
	var source string
	if err := json.Unmarshal(raw, &source); err == nil {
		return t.add(defaultName, source)
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return errors.New(`chat_template is neither a string nor a list of {"name", "template"}`)
	}
	for _, x := range list {
		// A model may have templates for purposes that are not ours; only those that can be chosen must parse.
		if x.Name != defaultName && x.Name != toolUseName {
			continue
		}
		if err := t.add(x.Name, x.Template); err != nil {
			return err
		}
	}
	_, err := t.choose(false)
	return err
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("%s: larger than %d bytes", path, maxFileBytes)
	}
	return data, err
}

// readJSON reads a file into v, which stays as it is if there is no file.
func readJSON(path string, v any) error {
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// tokenNames are the special tokens that templates may use.
type tokenNames struct {
	BOS  tokenName `json:"bos_token"`
	EOS  tokenName `json:"eos_token"`
	UNK  tokenName `json:"unk_token"`
	PAD  tokenName `json:"pad_token"`
	SEP  tokenName `json:"sep_token"`
	CLS  tokenName `json:"cls_token"`
	Mask tokenName `json:"mask_token"`
}

// byName gives those that the model has.
func (n tokenNames) byName() map[string]string {
	found := map[string]string{}
	for name, content := range map[string]tokenName{
		"bos_token": n.BOS, "eos_token": n.EOS, "unk_token": n.UNK, "pad_token": n.PAD, "sep_token": n.SEP, "cls_token": n.CLS, "mask_token": n.Mask,
	} {
		if content != "" {
			found[name] = string(content)
		}
	}
	return found
}

// tokenName is "content", {"content": …} or null.
type tokenName string

func (n *tokenName) UnmarshalJSON(data []byte) error {
	var s string
	if strings.HasPrefix(string(data), "{") {
		var o struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(data, &o)
		*n = tokenName(o.Content)
		return err
	}
	err := json.Unmarshal(data, &s)
	*n = tokenName(s)
	return err
}
