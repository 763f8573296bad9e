package testbed

import (
	"fmt"
	"os"
	"strings"
)

// Block is a piece of a guide that is run on a host.
type Block struct {
	Host   string
	Line   int // of its first command
	Script string
}

// Guide gives the blocks of a Markdown file that begin with "```sh HOST", in their order. Shell blocks without a host are an error, so that no
// command is in the guide that was never run; other blocks are left out.
func Guide(file string) (blocks []Block, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var open *Block
	fenced := false
	for i, line := range strings.Split(string(text), "\n") {
		mark, isMark := strings.CutPrefix(line, "```")
		switch {
		case isMark && open != nil:
			blocks, open, fenced = append(blocks, *open), nil, false
		case isMark && fenced:
			fenced = false
		case isMark:
			fenced = true
			words := strings.Fields(mark)
			if len(words) == 0 || words[0] != "sh" {
				continue
			}
			if len(words) != 2 {
				return nil, fmt.Errorf("%s:%d: on which host is this block run?", file, i+1)
			}
			open = &Block{Host: words[1], Line: i + 2}
		case open != nil:
			open.Script += line + "\n"
		}
	}
	if fenced {
		return nil, fmt.Errorf("%s: its last block doesn't end", file)
	}
	return blocks, nil
}
