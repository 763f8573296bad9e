package team

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// errExited is what is reported of a job that called runtime.Goexit: nothing panicked, but the job did not return.
var errExited = errors.New("the job ended its goroutine (runtime.Goexit)")

// FaultError is a memory fault inside a job: a mapped file was truncated underneath.
type FaultError struct {
	Address uintptr
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("memory fault at address %#x: a mapped file became shorter or its disk failed", e.Address)
}

// PanicError is any other panic inside a job.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in a job: %v", e.Value) }

// Unwrap gives the panic's value if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// asError makes an error of what recover gave; it runs inside the deferred function, where the stack is still that of the panic.
func asError(value any) error {
	if fault, ok := value.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return &FaultError{Address: fault.Addr()}
	}
	if value == nil {
		value = errExited
	}
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// failure keeps the error of the lowest job, so that the outcome doesn't depend on which thread was quicker.
type failure struct {
	mutex sync.Mutex
	job   int64
	err   error
}

func (f *failure) clear() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.job, f.err = 0, nil
}

func (f *failure) record(job int64, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.err == nil || job < f.job {
		f.job, f.err = job, err
	}
}

func (f *failure) first() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}
