// Package jinja renders Jinja templates as Hugging Face's chat templates use them: the language of Jinja 3.1 with its whitespace
// rules, Python's truth, comparison and printing of values, str and dict methods, and the filters and tests that make sense for
// text. Template inheritance, includes and imports are not here: a chat template is one file.
//
// Templates come with models from the internet, so that nothing in one may hang or kill the process: nesting is limited when a
// template is parsed, and rendering has a budget of work (see Limits), which counts steps and bytes that are produced, and a limit
// of macro calls inside each other. What exceeds a limit is an error (ErrLimit). As in Hugging Face's immutable sandbox, a
// template cannot change the values that it was given.
//
// It must not know what a chat is.
package jinja
