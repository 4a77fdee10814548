package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	noticeEvery = 10 * time.Millisecond // a NOTIFY takes a lock that all committing notifiers share
	noticeMost  = 400                   // names in one: its payload has less than 8000 bytes
)

// A notice names a key in a NOTIFY, by the half of its place. A collision wakes somebody too early.
type notice [8]byte

func noticeOf(p place) notice { return notice(p.Bytes[:8]) }

// notices are sent from one goroutine, which runs while there are any.
type notices struct {
	mu        sync.Mutex // guards all below
	unsent    map[notice]bool
	last      time.Time
	sending   bool
	listening bool
}

func (s *Store) notify(p place) {
	n := &s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unsent == nil {
		n.unsent = map[notice]bool{}
	}
	n.unsent[noticeOf(p)] = true
	if !n.sending {
		n.sending = s.life.start(s.sendNotices)
	}
}

func (s *Store) sendNotices(life context.Context) {
	n := &s.notices
	for {
		n.mu.Lock()
		due := time.Until(n.last.Add(noticeEvery))
		n.mu.Unlock()
		if due > 0 && sleep(life, due) != nil {
			return
		}
		payload, more := n.take()
		if !more {
			return
		}
		ctx, cancel := s.limit(life)
		// A notice that is lost is made up for by polling.
		_, _ = s.DB.Exec(ctx, `SELECT pg_notify($1, $2)`, s.channel(), payload)
		cancel()
	}
}

func (n *notices) take() (payload string, more bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.unsent) == 0 {
		n.sending = false
		return "", false
	}
	var names []byte
	for name := range n.unsent {
		if len(names) == noticeMost*len(name) {
			break
		}
		names = append(names, name[:]...)
		delete(n.unsent, name)
	}
	n.last = time.Now()
	return hex.EncodeToString(names), true
}

func (s *Store) channel() string {
	h := sha256.Sum256([]byte(s.statements().table))
	return "semel_" + hex.EncodeToString(h[:8])
}

// listen starts to listen, once, until the store is closed.
func (s *Store) listen() {
	n := &s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.listening {
		n.listening = s.life.start(func(life context.Context) {
			for try := 1; life.Err() == nil; try++ {
				if s.listenOnce(life) {
					try = 1
				}
				_ = pause(life, try, 100*time.Millisecond)
			}
		})
	}
}

// listenOnce listens on a connection of its own until that breaks, and reports whether it ever did.
func (s *Store) listenOnce(life context.Context) bool {
	conn, err := pgx.ConnectConfig(life, s.DB.Config().ConnConfig)
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := s.detached(life)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(life, `LISTEN `+s.channel()); err != nil {
		return false
	}
	s.waiting.recheck() // nobody has heard the notices until now
	for {
		got, err := conn.WaitForNotification(life)
		if err != nil {
			return true
		}
		if names, err := hex.DecodeString(got.Payload); err == nil {
			s.heard(names)
		}
	}
}

// heard wakes the waiters of the keys that were named.
func (s *Store) heard(names []byte) {
	named := map[notice]bool{}
	for ; len(names) >= len(notice{}); names = names[len(notice{}):] {
		named[notice(names[:8])] = true
	}
	var woken []place
	s.waiting.mu.Lock()
	for p := range s.waiting.keys {
		if named[noticeOf(p)] {
			woken = append(woken, p)
		}
	}
	s.waiting.mu.Unlock()
	for _, p := range woken {
		s.release(p, nil)
	}
}
