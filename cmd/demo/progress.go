package main

import (
	"fmt"
	"time"
)

// step prints what starts, and how long it took.
func step(what string, do func() error) error {
	start := time.Now()
	fmt.Printf("%s …", what)
	if err := do(); err != nil {
		fmt.Println(" failed")
		return err
	}
	fmt.Printf(" %s\n", seconds(time.Since(start)))
	return nil
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
