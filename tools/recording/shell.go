package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/creack/pty"
)

const (
	// promptMark is an escape sequence in the prompt, which terminals do not show.
	promptMark = "\x1b]133;A\x07"
	prompt     = `\[\e]133;A\a\]\[\e[32m\]$\[\e[0m\] `

	// keystroke is the time between two typed letters.
	keystroke = 14 * time.Millisecond
	// longestWait is the longest time without a change that is shown.
	longestWait = 500 * time.Millisecond
	// commandTimeout is the longest time that a command may take.
	commandTimeout = 2 * time.Minute
)

// shell is an interactive shell in a terminal.
type shell struct{ dir string }

// output is what a program wrote, and when, in the time of the recording.
type output struct {
	at   time.Duration
	text []byte
}

// recording is what the terminal got.
type recording struct {
	mu      sync.Mutex
	outputs []output
	now     time.Duration
	last    time.Time
	prompts int
}

// Write adds output at the time of the recording, which does not include long waits.
func (r *recording) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now += min(time.Since(r.last), longestWait)
	r.last = time.Now()
	r.outputs = append(r.outputs, output{at: r.now, text: bytes.Clone(text)})
	r.prompts += bytes.Count(text, []byte(promptMark))
	return len(text), nil
}

// hold shows the screen for a time.
func (r *recording) hold(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now += d
	r.last = time.Now()
}

func (r *recording) shownPrompts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.prompts
}

func (r *recording) length() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// record types the commands of the scenes and returns what the terminal got.
func (s *shell) record(ctx context.Context, scenes []scene) (*recording, error) {
	cmd := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-i")
	cmd.Dir, cmd.Env = s.dir, s.environ()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		return nil, fmt.Errorf("start a shell: %w", err)
	}
	recorded := &recording{last: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = terminal.WriteTo(recorded) // A terminal whose shell has exited cannot be read.
	}()
	err = recorded.play(ctx, s, terminal, scenes)
	err = errors.Join(err, cmd.Process.Kill())
	_ = cmd.Wait() // It was killed.
	err = errors.Join(err, terminal.Close())
	<-done
	return recorded, err
}

func (r *recording) play(ctx context.Context, s *shell, terminal *os.File, scenes []scene) error {
	if err := r.awaitPrompt(ctx, 0); err != nil {
		return err
	}
	r.hold(500 * time.Millisecond)
	for _, scene := range scenes {
		prompts := r.shownPrompts()
		for _, letter := range scene.command {
			if _, err := terminal.WriteString(string(letter)); err != nil {
				return err
			}
			pause(ctx, keystroke)
		}
		pause(ctx, 200*time.Millisecond)
		if _, err := terminal.WriteString("\r"); err != nil {
			return err
		}
		if err := r.awaitPrompt(ctx, prompts); err != nil {
			return fmt.Errorf("run %s: %w", scene.command, err)
		}
		if scene.until != "" {
			if err := s.await(ctx, scene); err != nil {
				return err
			}
		}
		r.hold(scene.read)
	}
	return nil
}

// awaitPrompt waits until the shell has shown more than this number of prompts.
func (r *recording) awaitPrompt(ctx context.Context, prompts int) error {
	for start := time.Now(); r.shownPrompts() <= prompts; pause(ctx, 10*time.Millisecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(start) > commandTimeout {
			return errors.New("the shell shows no prompt")
		}
	}
	return nil
}

// pause waits for a time, or until the recording is interrupted.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
