package benchmarks

import (
	"context"
	"fmt"
	"net/http"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
)

// backoffLoop is the retry loop that people write by hand.
func backoffLoop(rt http.RoundTripper, _ string) Send {
	client := &http.Client{Transport: rt}
	return func(ctx context.Context, op *Op) (status int, err error) {
		key := uuid.NewString()
		schedule := backoff.WithMaxRetries(backoff.NewExponentialBackOff(backoff.WithInitialInterval(0)), 2)
		err = backoff.Retry(func() error {
			req, err := op.request(ctx)
			if err != nil {
				return backoff.Permanent(err)
			}
			req.Header.Set("Idempotency-Key", key)
			status, err = finished(client.Do(req))
			if err != nil {
				return err
			}
			if status >= 500 {
				return fmt.Errorf("status %d", status)
			}
			return nil
		}, backoff.WithContext(schedule, ctx))
		return status, err
	}
}
