// Doubleclick is a shop whose customer presses Pay twice, and then pays again from another tab. The key is made when the
// form is rendered, so both clicks are one operation. The second tab has a key of its own: there the invoice's number,
// which the bank takes once, keeps the money where it is. A key does not replace a natural id that is unique.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

func main() {
	log.SetFlags(0)
	bank := testserver.New(testserver.LoseReply(1))
	if err := bank.Start(); err != nil {
		log.Fatal(err)
	}
	defer bank.Close()
	shop := httptest.NewServer(&shop{bank: bank.URL})
	defer shop.Close()

	form := render(shop.URL)
	var clicks sync.WaitGroup
	for range 2 {
		clicks.Go(func() { fmt.Println("click:", submit(shop.URL, form)) })
	}
	clicks.Wait()

	otherTab := render(shop.URL)
	fmt.Println("other tab:", submit(shop.URL, otherTab))

	transfers := len(bank.Bank.Transfers())
	fmt.Println("transfers:", transfers)
	if transfers != 1 {
		log.Fatal("an invoice must be paid once")
	}
}

// A shop takes payments for invoice 7.
type shop struct {
	bank   string
	client semel.Client
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		token, _ := semel.UUIDv4(nil) // the key is as old as the form, not as the click
		fmt.Fprintf(w, `<form method="post"><input type="hidden" name="form" value="%s"><button>Pay</button></form>`, token)
		return
	}
	// The invoice is part of the key, so that a forged form can repeat this payment and no other.
	op := semel.NewOperation(semel.Derive("pay", "invoice-7", r.FormValue("form")))
	body := `{"from":"alice","to":"bob","amount":100,"reference":"invoice-7"}`
	req, err := http.NewRequestWithContext(op.Context(r.Context()), http.MethodPost, s.bank+"/transfers", strings.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	resp, err := s.client.Do(req)
	if err != nil { // not known to be paid: the customer may press again, under the same key
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusCreated:
		fmt.Fprint(w, "paid, see ", resp.Header.Get("Location"))
	case http.StatusConflict:
		fmt.Fprint(w, "invoice 7 has been paid before")
	default:
		http.Error(w, "the bank refused: "+resp.Status, http.StatusBadGateway)
	}
}

// render is the browser that opens the page; it returns what the form hides.
func render(shop string) string {
	page := read(http.Get(shop))
	_, page, _ = strings.Cut(page, `value="`)
	token, _, _ := strings.Cut(page, `"`)
	return token
}

// submit is the browser that sends the form.
func submit(shop, form string) string { return read(http.PostForm(shop, url.Values{"form": {form}})) }

func read(resp *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}
