package annotations

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// ContainerCUs is what the plugin handed to one container: the answer to give
// again when the kubelet, after a restart, asks for the same devices.
type ContainerCUs struct {
	// IDs are the kubelet device IDs of the container, such as "0000:05:00.0#3",
	// in the order of the kubelet's request.
	IDs []string `json:"ids"`
	// CUs are the container's compute units on each device, by Device.ID. A
	// device of which the container has memory alone is not in it.
	CUs map[string]cumask.Set `json:"cus"`
}

// EncodeContainerCUs writes the value of CUContainersKey, by container name:
//
//	{"train":{"ids":["0000:05:00.0#3"],"cus":{"<device id>":"0-75"}}}
//
// Containers and devices come in ascending order. It refuses an empty container
// name, a container without IDs, an empty or repeated ID, and what EncodeCUs refuses.
func EncodeContainerCUs(containers map[string]ContainerCUs) (string, error) {
	b, err := appendContainers(nil, containers)
	if err == nil {
		err = checkSize(string(b))
	}
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", CUContainersKey, err)
	}
	return string(b), nil
}

func appendContainers(b []byte, containers map[string]ContainerCUs) ([]byte, error) {
	if len(containers) > maxMembers {
		return nil, fmt.Errorf("%d containers, want at most %d", len(containers), maxMembers)
	}
	b = append(b, '{')
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		c := containers[name]
		if err := checkText("container", name); err != nil {
			return nil, err
		}
		err := c.check(name)
		if err == nil {
			b = append(appendKey(b, name), `{"ids":[`...)
			for i, id := range c.IDs {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendString(b, id)
			}
			b, err = appendCUs(append(b, `],"cus":`...), c.CUs)
		}
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", quote(name), err)
		}
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

// check refuses a record that names no container or no devices.
func (c *ContainerCUs) check(name string) error {
	if name == "" {
		return errors.New("container name is empty")
	}
	if len(c.IDs) == 0 {
		return errors.New("ids: want at least one kubelet device ID")
	}
	if len(c.IDs) > maxGrants {
		return fmt.Errorf("ids: %d kubelet device IDs, want at most %d", len(c.IDs), maxGrants)
	}
	for i, id := range c.IDs {
		if id == "" {
			return fmt.Errorf("ids: element %d is empty", i)
		}
		if slices.Contains(c.IDs[:i], id) {
			return fmt.Errorf("ids: %s is there twice", quote(id))
		}
		if err := checkText("ids:", id); err != nil {
			return err
		}
	}
	return nil
}

// DecodeContainerCUs reads the value of CUContainersKey, as strictly as DecodeCUs.
// Members of a container other than ids and cus are ignored, so that a plugin can
// go back to this version from a later one.
func DecodeContainerCUs(s string) (map[string]ContainerCUs, error) {
	if err := checkSize(s); err != nil {
		return nil, fmt.Errorf("decode %s: %w", CUContainersKey, err)
	}
	containers := map[string]ContainerCUs{}
	p := newScanner(s)
	err := p.object(func(name string) error {
		c, err := p.containerCUs()
		if err == nil {
			err = c.check(name)
		}
		if err != nil {
			return fmt.Errorf("container %s: %w", quote(name), err)
		}
		containers[name] = c
		return nil
	})
	if err = p.last(err); err != nil {
		return nil, fmt.Errorf("decode %s: %w", CUContainersKey, err)
	}
	return containers, nil
}

// containerCUs reads {"ids":[...],"cus":{...}}.
func (p *scanner) containerCUs() (ContainerCUs, error) {
	c := ContainerCUs{CUs: map[string]cumask.Set{}}
	err := p.object(func(name string) error {
		switch name {
		case "ids":
			return p.array(maxGrants, func(i int) error {
				id, err := p.text()
				if err != nil {
					return fmt.Errorf("ids: element %d: %w", i, err)
				}
				c.IDs = append(c.IDs, id)
				return nil
			})
		case "cus":
			all, err := p.deviceCUs(nil)
			if err != nil {
				return fmt.Errorf("cus: %w", err)
			}
			for _, d := range all {
				c.CUs[d.device] = d.cus
			}
			return nil
		}
		return p.skip(0)
	})
	return c, err
}
