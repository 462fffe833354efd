package sources

import (
	"encoding/base64"
	"regexp"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// canary is in the content of every Secret of the tests, and nowhere else.
const canary = "a-canary-that-nobody-may-see"

// logs search everything that is logged for the canary.
var logs searcher

type searcher struct {
	mu    sync.Mutex
	lines int
	found []string // lines with the canary
}

func (s *searcher) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		isLeak := contains(args, canary)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines++
		if isLeak && len(s.found) < 3 {
			s.found = append(s.found, prefix+args)
		}
	}, funcr.Options{Verbosity: 100})
}

// dump matches the text in a line of a hexadecimal dump, by which client-go logs protobuf.
var dump = regexp.MustCompile(`\|(.{1,16})\|`)

// contains reports whether a text has another one, as it is, in base64, or in a dump.
func contains(text, searched string) bool {
	var dumped strings.Builder
	for _, match := range dump.FindAllStringSubmatch(text, -1) {
		dumped.WriteString(match[1])
	}
	for shift := range 3 { // base64 depends on the position
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + searched))
		if strings.Contains(text, encoded[4:len(encoded)-4]) {
			return true
		}
	}
	return strings.Contains(text, searched) || strings.Contains(dumped.String(), searched)
}
