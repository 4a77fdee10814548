// Resume pays from a process that is killed in the middle. The operation and the body are on disk before anything is sent,
// so the next process asks again under the same key and learns what became of it.
//
// The program is the bank, and runs itself twice more as the payer.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

func main() {
	log.SetFlags(0)
	run := bank
	if len(os.Args) == 3 {
		run = func() error { return pay(os.Args[1], os.Args[2]) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// A job is what must survive: the operation, and the body, which semel does not keep.
type job struct {
	Operation *semel.Operation
	Body      []byte
}

// pay finishes the job of the file, or begins it.
func pay(bank, file string) error {
	j, err := load(file)
	begun := errors.Is(err, fs.ErrNotExist)
	if begun {
		j = job{semel.NewOperation(""), []byte(`{"from":"alice","to":"bob","amount":100}`)}
	} else if err != nil {
		return err // never begin anew because the file cannot be read
	}
	req, err := http.NewRequest(http.MethodPost, bank+"/transfers", bytes.NewReader(j.Body))
	if err != nil {
		return err
	}
	if begun {
		if err := j.Operation.Bind(req); err != nil {
			return err
		}
		if err := save(file, j); err != nil {
			return err // nothing was sent
		}
		fmt.Println("payer: begins")
	} else {
		fmt.Println("payer: finds an unfinished payment")
	}
	resp, err := new(semel.Client).Do(req.WithContext(j.Operation.Context(context.Background())))
	if err != nil {
		return err // the file stays, unless the error is NotSent or NotApplied and the payer gives up
	}
	defer resp.Body.Close()
	fmt.Printf("payer: %d, %s\n", resp.StatusCode, j.Operation.Outcome().String())
	return os.Remove(file)
}

func load(file string) (j job, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return j, err
	}
	return j, json.Unmarshal(text, &j)
}

// save makes the file appear whole or not at all. A power cut, unlike a kill, can undo the rename unless the directory is
// synced too, which not every system can do.
func save(file string, j job) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "job")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has its name
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// bank serves, kills the first payer while it waits for the reply, and starts the second.
func bank() error {
	moved := make(chan struct{})
	b := testserver.New(testserver.At(testserver.AfterSettle, 1, func(ctx context.Context, v testserver.Visit) error {
		close(moved)
		return testserver.Hang(ctx, v) // until the payer is gone
	}))
	if err := b.Start(); err != nil {
		return err
	}
	defer b.Close()
	dir, err := os.MkdirTemp("", "semel-resume")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	first, err := payer(b.URL, dir)
	if err != nil {
		return err
	}
	select {
	case <-moved:
	case <-time.After(time.Minute):
		err = errors.New("the first payer sent nothing")
	}
	err = errors.Join(err, first.Process.Kill()) // SIGKILL: it cannot do a thing about it
	fmt.Println("bank: first payer killed:", first.Wait())
	if err != nil {
		return err
	}

	second, err := payer(b.URL, dir)
	if err != nil {
		return err
	}
	if err := second.Wait(); err != nil {
		return err
	}
	fmt.Println("bank: transfers:", len(b.Bank.Transfers()))
	if len(b.Bank.Transfers()) != 1 {
		return errors.New("the money must move once")
	}
	return nil
}

func payer(bank, dir string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, bank, filepath.Join(dir, "payment.json"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd, cmd.Start()
}
