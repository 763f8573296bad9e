// Package template renders a model's chat template (Jinja as Hugging Face uses it).
package template

// Template is a parsed chat template.
type Template struct{}

// Message is one turn; Content is a string, or what the template accepts. Extra fields (tool_calls, ...) are kept in order.
type Message struct {
	Role    string
	Content string
}

// Load reads the chat template of a model folder (tokenizer_config.json's chat_template, or chat_template.jinja); nil without
// error if the model has none.
func Load(dir string) (*Template, error) { panic("skeleton") }

// Render gives the prompt text; addGenerationPrompt appends the assistant's opening.
func (t *Template) Render(messages []Message, addGenerationPrompt bool) (string, error) {
	panic("skeleton")
}
