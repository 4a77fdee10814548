//go:build unix

package pgstore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// A provider is a third party that moves money, in this process, which no fault touches. It has the effect each time it
// is asked, except for a key that it has seen.
type provider struct {
	url string

	mu      sync.Mutex // guards the fields below
	balance map[int]int
	effects map[string][]string // receipts by operation
	seen    map[string]string   // receipts by key
}

func newProvider(t *testing.T) *provider {
	p := &provider{balance: map[int]int{}, effects: map[string][]string{}, seen: map[string]string{}}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var t transfer
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, p.charge(t, r.Header.Get("Idempotency-Key")))
}

func (p *provider) charge(t transfer, key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.seen[key]; ok {
		return id
	}
	id := fmt.Sprintf("%s/%d", t.Op, len(p.effects[t.Op])+1)
	p.effects[t.Op] = append(p.effects[t.Op], id)
	p.balance[t.From] -= t.Amount
	p.balance[t.To] += t.Amount
	if key != "" {
		p.seen[key] = id
	}
	return id
}

// book returns the receipts of all effects by operation, and the sum of all accounts.
func (p *provider) book() (effects map[string][]string, sum int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	effects = make(map[string][]string, len(p.effects))
	for op, ids := range p.effects {
		effects[op] = append([]string(nil), ids...)
	}
	for _, b := range p.balance {
		sum += b
	}
	return effects, sum
}
