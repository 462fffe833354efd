// Package document reads the code blocks of the project's Markdown documents, so that tests run the
// commands that a document shows, and build the examples in it.
package document

import (
	"fmt"
	"os"
	"strings"
)

// fence begins and ends a code block. It may be indented, in a list.
const fence = "```"

// Block is a code block.
type Block struct {
	// Language is the word behind the first fence, such as yaml, or "".
	Language string

	// Text is the lines between the fences, as they are.
	Text string
}

// Section returns the code blocks of the section with a heading, such as "## Uninstall", and of its
// subsections.
func Section(file, heading string) ([]Block, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := scan(string(content), heading)
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no section %q with a code block", file, heading)
	}
	return found, nil
}

// Find returns the first code block that starts with a text.
func Find(file, start string) (Block, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Block{}, err
	}
	for _, block := range scan(string(content), "") {
		if strings.HasPrefix(block.Text, start) {
			return block, nil
		}
	}
	return Block{}, fmt.Errorf("%s has no code block that starts with %q", file, start)
}

// scan returns the code blocks of the section with a heading, or all of them without a heading. A
// line that begins with # is a heading outside of code blocks only.
func scan(content, heading string) (found []Block) {
	isInside, isWanted := false, heading == ""
	var block Block
	for line := range strings.Lines(content) {
		language, isFence := strings.CutPrefix(strings.TrimSpace(line), fence)
		switch {
		case isFence && isInside:
			isInside = false
			if isWanted {
				found = append(found, block)
			}
		case isFence:
			isInside, block = true, Block{Language: language}
		case isInside:
			block.Text += line
		case heading != "" && level(line) > 0:
			isHeading := strings.TrimSpace(line) == heading
			isWanted = isHeading || isWanted && level(line) > level(heading)
		}
	}
	return found
}

// level returns the level of a heading, or 0 if the line is none.
func level(line string) int {
	text := strings.TrimLeft(line, "#")
	if !strings.HasPrefix(text, " ") {
		return 0
	}
	return len(line) - len(text)
}

// Commands returns the commands of a shell script, one by one: a line with the lines that continue it,
// after a backslash or as a here-document. Comments and empty lines are left out.
func Commands(script string) (commands []string) {
	var command strings.Builder
	end := "" // of the here-document
	for line := range strings.Lines(script) {
		text := strings.TrimSpace(line)
		if command.Len() == 0 && (text == "" || strings.HasPrefix(text, "#")) {
			continue
		}
		command.WriteString(line)
		switch _, word, isHere := strings.Cut(text, "<<"); {
		case end != "" && text != end, end == "" && strings.HasSuffix(text, `\`):
			continue
		case end == "" && isHere:
			end = strings.Trim(word, `'"`)
			continue
		}
		end = ""
		commands = append(commands, strings.TrimSuffix(command.String(), "\n"))
		command.Reset()
	}
	return commands
}
