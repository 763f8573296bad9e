package coordinator

import (
	"fmt"
	"strconv"
	"time"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/dispatch"
)

// The policies that a group of coordinators agrees on, by the names of their flags: what decides on the tokens of an answer must not change
// when another coordinator leads.
const (
	policyBudget          = "expert-budget"
	policyBudgetPrefill   = "budget-prefill"
	policyBudgetRescue    = "budget-rescue"
	policyOnMissing       = "on-missing"
	policyMissingDeadline = "missing-deadline"
	policyReplicas        = "replicas"
)

// Policies are the names of the policy flags.
func Policies() []string {
	return []string{policyBudget, policyBudgetPrefill, policyBudgetRescue, policyOnMissing, policyMissingDeadline, policyReplicas}
}

// policies are those that count at present.
type policies struct {
	budget    budget.Policy
	onMissing dispatch.OnMissing
	missing   time.Duration // 0: dispatch's default
	replicas  int
}

func (p *policies) String() string {
	missing := p.missing
	if missing == 0 {
		missing = dispatch.DefaultMissing
	}
	return fmt.Sprintf("--%s %s --%s=%t --%s=%t --%s %s --%s %s --%s %d", policyBudget, p.budget, policyBudgetPrefill, p.budget.Prefill,
		policyBudgetRescue, p.budget.Rescue, policyOnMissing, p.onMissing, policyMissingDeadline, missing,
		policyReplicas, max(p.replicas, 1))
}

// own are those of the coordinator's options.
func (o *Options) policies() *policies {
	return &policies{o.Budget, o.OnMissing, o.Missing, o.Replicas}
}

// Budget is the expert budget of requests that bring none.
func (c *Coordinator) Budget() budget.Policy { return c.policies.Load().budget }

// OnMissing is what the coordinator does when no worker holds an expert that is needed.
func (c *Coordinator) OnMissing() dispatch.OnMissing { return c.policies.Load().onMissing }

// adopt takes over the group's policies; what the group does not have stays as it is here. Names that this build doesn't know are of a newer
// one.
func (c *Coordinator) adopt(settings map[string]string) error {
	own := c.options.policies()
	p := *own
	var err error
	for name, value := range settings {
		switch name {
		case policyBudget:
			var parsed budget.Policy
			parsed, err = budget.Parse(value)
			parsed.Prefill, parsed.Rescue = p.budget.Prefill, p.budget.Rescue
			p.budget = parsed
		case policyBudgetPrefill:
			p.budget.Prefill, err = strconv.ParseBool(value)
		case policyBudgetRescue:
			p.budget.Rescue, err = strconv.ParseBool(value)
		case policyOnMissing:
			p.onMissing, err = dispatch.ParseOnMissing(value)
		case policyMissingDeadline:
			p.missing, err = time.ParseDuration(value)
		case policyReplicas:
			p.replicas, err = strconv.Atoi(value)
		}
		if err != nil {
			return fmt.Errorf("the group's --%s is %q: %w", name, value, err)
		}
	}
	if p.String() != own.String() {
		c.options.log("the group's policies count, not this coordinator's flags: %s", &p)
	}
	c.policies.Store(&p)
	return nil
}
