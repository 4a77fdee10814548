package proof

import (
	"context"
	"errors"
	"time"

	"github.com/semel-go/semel/testserver"
)

var errShaky = errors.New("proof: the store cannot be reached")

// fault decides about one call, and writes down what goes wrong with it.
func (s *shakyStore) fault(call storeCall, id testserver.ID) storeFault {
	w := s.world
	if w.calm.Load() {
		return well
	}
	n := w.storeCalls.Add(1)
	f := w.plan.shaky(call, int(n))
	if f != well {
		name := [...]string{"claim", "renew", "settle", "look", "transact"}[call]
		w.history.add(Event{Kind: Faulted, ID: id, Note: "the store: " + name + [...]string{"", " does not arrive", "'s answer is lost"}[f]})
	}
	return f
}

func (s *shakyStore) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	f := s.fault(claimCall, c.ID)
	if f == down {
		return testserver.Record{}, errShaky
	}
	rec, err := s.Transactor.Claim(ctx, c)
	if f == silent {
		return testserver.Record{}, errShaky
	}
	return rec, err
}

func (s *shakyStore) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	f := s.fault(renewCall, holds[0].ID)
	if f == down {
		return nil, errShaky
	}
	renewals, err := s.Transactor.Renew(ctx, lease, holds)
	if f == silent {
		return nil, errShaky
	}
	return renewals, err
}

func (s *shakyStore) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	f := s.fault(settleCall, h.ID)
	if f == down {
		return errShaky
	}
	err := s.Transactor.Settle(ctx, h, e)
	if f == silent {
		return errShaky
	}
	return err
}

func (s *shakyStore) Look(ctx context.Context, id testserver.ID) (testserver.Record, error) {
	if s.fault(lookCall, id) != well {
		return testserver.Record{}, errShaky
	}
	return s.Transactor.Look(ctx, id)
}

func (s *shakyStore) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, work func(context.Context) (*testserver.Answer, error)) (testserver.Record, error) {
	f := s.fault(transactCall, c.ID)
	if f == down {
		return testserver.Record{}, errShaky
	}
	rec, err := s.Transactor.Transact(ctx, c, wait, work)
	if f == silent {
		return testserver.Record{}, testserver.ErrInDoubt
	}
	return rec, err
}
