package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// templatePiece is a part of what the post-processor makes of a text: its own ids, or fixed ones.
type templatePiece struct {
	sequence bool
	ids      []int32
}

const maxTemplatePieces = 1024

// parsePostProcessor gives the template for one sequence; nil if it adds nothing.
func parsePostProcessor(raw json.RawMessage, size int) ([]templatePiece, error) {
	pieces := []templatePiece{{sequence: true}}
	if err := applyPostProcessor(raw, 0, size, &pieces); err != nil {
		return nil, err
	}
	if len(pieces) == 1 && pieces[0].sequence {
		return nil, nil
	}
	return pieces, nil
}

// applyPostProcessor puts what pieces are now in the place of the sequence of this post-processor.
func applyPostProcessor(raw json.RawMessage, depth, size int, pieces *[]templatePiece) error {
	if isNull(raw) {
		return nil
	}
	if depth > maxDepth {
		return errTooDeep
	}
	kind, err := kindOf(raw)
	if err != nil {
		return err
	}
	switch kind {
	case "ByteLevel": // changes offsets only
		return nil
	case "Sequence":
		var s struct {
			Processors []json.RawMessage `json:"processors"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		for _, r := range s.Processors {
			if err := applyPostProcessor(r, depth+1, size, pieces); err != nil {
				return err
			}
		}
		return nil
	case "TemplateProcessing":
		outer, err := parseTemplate(raw, size)
		if err != nil {
			return fmt.Errorf("kind TemplateProcessing: %w", err)
		}
		var out []templatePiece
		for _, p := range outer {
			if !p.sequence {
				out = append(out, p)
				continue
			}
			out = append(out, *pieces...)
		}
		if len(out) > maxTemplatePieces {
			return fmt.Errorf("kind TemplateProcessing: more than %d pieces", maxTemplatePieces)
		}
		*pieces = out
		return nil
	}
	return unknownKind(kind, "TemplateProcessing", "ByteLevel", "Sequence")
}

func parseTemplate(raw json.RawMessage, size int) ([]templatePiece, error) {
	var f struct {
		Single []struct {
			Sequence     *struct{ ID string }
			SpecialToken *struct{ ID string }
		} `json:"single"`
		SpecialTokens map[string]struct {
			IDs []int64 `json:"ids"`
		} `json:"special_tokens"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if len(f.Single) > maxTemplatePieces {
		return nil, fmt.Errorf("more than %d pieces", maxTemplatePieces)
	}
	var out []templatePiece
	for i, p := range f.Single {
		switch {
		case p.Sequence != nil && p.Sequence.ID == "A":
			out = append(out, templatePiece{sequence: true})
		case p.SpecialToken != nil:
			t, ok := f.SpecialTokens[p.SpecialToken.ID]
			if !ok {
				return nil, fmt.Errorf("single[%d]: %q is not among special_tokens", i, p.SpecialToken.ID)
			}
			if len(t.IDs) > maxTemplatePieces {
				return nil, fmt.Errorf("special token %q has more than %d ids", p.SpecialToken.ID, maxTemplatePieces)
			}
			piece := templatePiece{}
			for _, id := range t.IDs {
				if id < 0 || id >= int64(size) {
					return nil, fmt.Errorf("special token %q: no token has id %d", p.SpecialToken.ID, id)
				}
				piece.ids = append(piece.ids, int32(id))
			}
			out = append(out, piece)
		default:
			return nil, fmt.Errorf("single[%d] is neither sequence A nor a special token", i)
		}
	}
	return out, nil
}

// config is what tokenizer_config.json says that matters here.
type config struct {
	AddBOSToken        bool                  `json:"add_bos_token"`
	AddEOSToken        bool                  `json:"add_eos_token"`
	BOSToken           tokenName             `json:"bos_token"`
	EOSToken           tokenName             `json:"eos_token"`
	AddedTokensDecoder map[string]addedToken `json:"added_tokens_decoder"`
}

// tokenName is "content", {"content": …} or null.
type tokenName string

func (n *tokenName) UnmarshalJSON(data []byte) error {
	if strings.HasPrefix(string(data), "{") {
		var o struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(data, &o)
		*n = tokenName(o.Content)
		return err
	}
	var s string
	err := json.Unmarshal(data, &s)
	*n = tokenName(s)
	return err
}

func parseConfig(data []byte) (config, error) {
	var c config
	if len(data) == 0 {
		return c, nil
	}
	return c, json.Unmarshal(data, &c)
}

// template adds bos and eos where the configuration asks for them; nil if it doesn't.
func (c config) template(t *Tokenizer) ([]templatePiece, error) {
	var out []templatePiece
	add := func(wanted bool, flag string, name tokenName) error {
		if !wanted || name == "" {
			return nil
		}
		id, ok := t.ID(string(name))
		if !ok {
			return fmt.Errorf("%s: %q is not a token", flag, name)
		}
		out = append(out, templatePiece{ids: []int32{id}})
		return nil
	}
	if err := add(c.AddBOSToken, "add_bos_token", c.BOSToken); err != nil {
		return nil, err
	}
	out = append(out, templatePiece{sequence: true})
	if err := add(c.AddEOSToken, "add_eos_token", c.EOSToken); err != nil {
		return nil, err
	}
	if len(out) == 1 {
		return nil, nil
	}
	return out, nil
}
