package pgstore

import (
	"context"
	"math/rand/v2"
	"time"
)

// tries bounds how often a call is repeated.
const tries = 6

// retry calls until there is no error that asks for more, for as long as the context lasts.
func retry(ctx context.Context, when func(error) bool, call func() error) error {
	for try := 1; ; try++ {
		err := call()
		if err == nil || !when(err) || try == tries || pause(ctx, try, 3*time.Millisecond) != nil {
			return err
		}
	}
}

// repeatable is for calls that may be repeated whatever became of them.
func repeatable(err error) bool { return again(err) || maybeDone(err) }

// pause waits a random time that grows with the tries.
func pause(ctx context.Context, try int, unit time.Duration) error {
	return sleep(ctx, rand.N(unit<<min(try, 6)))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
