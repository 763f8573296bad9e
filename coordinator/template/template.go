// Package template renders a model's chat template, a Jinja template that comes with the model, as Hugging Face's
// apply_chat_template does. The language is in the package jinja below it.
//
// It owns where templates lie in a model folder, which of several is used, and which variables and functions they get. It must not
// know tokens or models.
package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/moepool/moepool/coordinator/template/jinja"
)

// Template is a parsed chat template. Its methods may be called from any goroutine.
type Template struct {
	named   map[string]*jinja.Template // "default" is the usual one; "tool_use" is used with tools
	special map[string]jinja.Value     // bos_token and the like
	now     func() time.Time
}

// Message is one turn.
type Message struct {
	Role    string
	Content string
}

// RaisedError is what a template says with raise_exception: the conversation is not one that the model was made for.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return "chat template: " + e.Message }

// ErrLimit is wrapped by errors of templates that ask for too much work, depth or text.
var ErrLimit = jinja.ErrLimit

// Options are what a conversation may come with.
type Options struct {
	AddGenerationPrompt bool
	Tools               json.RawMessage            // a list of tool descriptions; empty or null is none
	Documents           json.RawMessage            // a list of documents; empty or null is none
	Variables           map[string]json.RawMessage // further variables such as enable_thinking
}

// Parse makes a Template from the source of one chat template. specialTokens are variables such as bos_token; nil is none.
func Parse(source string, specialTokens map[string]string) (*Template, error) {
	t := &Template{named: map[string]*jinja.Template{}, special: map[string]jinja.Value{}, now: time.Now}
	for name, content := range specialTokens {
		t.special[name] = content
	}
	return t, t.add(defaultName, source)
}

const (
	defaultName = "default"
	toolUseName = "tool_use"
)

func (t *Template) add(name, source string) error {
	parsed, err := jinja.Parse(source)
	if err != nil {
		return fmt.Errorf("chat template %q: %w", name, err)
	}
	t.named[name] = parsed
	return nil
}

// Render gives the prompt text; addGenerationPrompt appends the assistant's opening.
func (t *Template) Render(messages []Message, addGenerationPrompt bool) (string, error) {
	list := jinja.NewList()
	size := 0
	for _, m := range messages {
		size += len(m.Content)
		d := jinja.NewDict()
		if err := errors.Join(d.Set("role", m.Role), d.Set("content", m.Content)); err != nil {
			return "", err
		}
		list.Items = append(list.Items, d)
	}
	return t.render(list, size, Options{AddGenerationPrompt: addGenerationPrompt})
}

// RenderAny is Render for messages as an API gets them: a JSON list of objects with whatever fields the template knows (role,
// content, tool_calls, reasoning_content, …). Objects keep the order of their fields.
func (t *Template) RenderAny(messages json.RawMessage, options Options) (string, error) {
	list, err := jinja.FromJSON(messages)
	if err != nil {
		return "", fmt.Errorf("messages: %w", err)
	}
	if _, ok := list.(*jinja.List); !ok {
		return "", errors.New("messages: not a list")
	}
	return t.render(list, len(messages)+len(options.Tools)+len(options.Documents), options)
}

// workPerByte is what a template may do for each byte of its input, beyond what it may do in any case.
const workPerByte = 64

// render renders messages of about size bytes.
func (t *Template) render(messages jinja.Value, size int, options Options) (string, error) {
	variables := map[string]jinja.Value{
		"raise_exception": jinja.Function("raise_exception", raise),
		"strftime_now":    jinja.Function("strftime_now", t.strftimeNow),
	}
	for name, v := range t.special {
		variables[name] = v
	}
	variables["messages"] = messages
	variables["add_generation_prompt"] = options.AddGenerationPrompt
	for name, raw := range options.Variables {
		v, err := jinja.FromJSON(raw)
		if err != nil {
			return "", fmt.Errorf("variable %q: %w", name, err)
		}
		variables[name] = v
	}
	var err error
	if variables["tools"], err = listOrNone("tools", options.Tools); err != nil {
		return "", err
	}
	if variables["documents"], err = listOrNone("documents", options.Documents); err != nil {
		return "", err
	}
	chosen, err := t.choose(variables["tools"] != nil)
	if err != nil {
		return "", err
	}
	text, err := chosen.Render(variables, jinja.Limits{Work: jinja.DefaultWork + workPerByte*int64(size)})
	var raised *RaisedError
	if errors.As(err, &raised) {
		return "", raised
	}
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return text, nil
}

// choose takes the template for tools if there are any and the model has one.
func (t *Template) choose(tools bool) (*jinja.Template, error) {
	if found, ok := t.named[toolUseName]; ok && tools {
		return found, nil
	}
	if found, ok := t.named[defaultName]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("the model has several chat templates, but none named %q", defaultName)
}

func listOrNone(name string, raw json.RawMessage) (jinja.Value, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if v == nil {
		return nil, nil
	}
	if _, ok := v.(*jinja.List); !ok {
		return nil, fmt.Errorf("%s: not a list", name)
	}
	return v, nil
}

func raise(arguments []jinja.Value) (jinja.Value, error) {
	message := "the template raised an exception"
	if len(arguments) > 0 {
		if s, ok := arguments[0].(string); ok {
			message = s
		}
	}
	return nil, &RaisedError{message}
}
