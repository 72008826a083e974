package draw_test

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/inspect/draw"
)

func ExampleText() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		annotations.NodeRegisterKey: `[{"id":"A","count":10,"devmem":196592,"devcore":80,"type":"AMD Instinct MI308X","health":true,"custominfo":{"numXCC":4}}]`,
	}}}
	cluster := inspect.New([]*corev1.Node{node}, nil, inspect.Options{})
	if err := draw.Text(os.Stdout, cluster, draw.TextOptions{Options: draw.Options{Title: "lab"}, ASCII: true}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// lab
	// 1 node, 1 GPU, 0 pods  CUs 0 of 80 (0 %)  VRAM 0 of 192 GiB (0 %)
	//
	// n1  1 x MI308X  cu mode  CUs 0 of 80 (0 %)  VRAM 0 of 192 GiB (0 %)  0 pods
	//
	//   GPU 0  MI308X  A  0 of 10 shares
	//     XCC 0-3  ....................    20 free
	//     VRAM     ....................  196592 of 196592 MiB free
	//     .  free    80 CUs    80 effective   196592 MiB
}
