// Clients does what operators written in Go do, with the client-go that Kubernetes itself has, and says each thing that
// worked. It ends with an error at the first that does not.
//
//	go run ./clients KUBECONFIG NAMESPACE
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
)

const patience = 30 * time.Second

type program struct {
	config    *rest.Config
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check("kubeconfig", err)
	// What is built in travels as protobuf where the server has it, as controller-runtime asks for.
	typed := rest.CopyConfig(config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	p := program{config, kubernetes.NewForConfigOrDie(typed), dynamic.NewForConfigOrDie(config), os.Args[2]}

	check("mapper", p.mapper())
	check("informer", p.informer(ctx))
	check("conflict", p.conflict(ctx))
	check("apply", p.apply(ctx))
	check("dynamic", p.dynamicInformer(ctx))
	check("metadata", p.metadataOnly(ctx))
	check("election", p.election(ctx))
	check("events", p.events(ctx))
}

func check(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}

func (p program) mapper() error {
	cached := memory.NewMemCacheClient(kubernetes.NewForConfigOrDie(p.config).Discovery())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	for resource, kind := range map[string]string{"trainjobs": "TrainJob", "jobs": "Job", "pods": "Pod"} {
		found, err := mapper.KindFor(schema.GroupVersionResource{Resource: resource})
		if err != nil {
			return err
		}
		if found.Kind != kind {
			return fmt.Errorf("%s is %v", resource, found)
		}
	}
	_, err := mapper.RESTMapping(schema.GroupKind{Group: "trainer.kubeflow.org", Kind: "TrainJob"}, "v1alpha1")
	return err
}

// informer sees an object come, change and go, from a streaming list on.
func (p program) informer(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(p.client, 0, informers.WithNamespace(p.namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	seen := make(chan string, 16)
	name := func(obj any) string { return obj.(*corev1.ConfigMap).Name }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "added " + name(obj) },
		UpdateFunc: func(_, obj any) { seen <- "updated " + name(obj) + " " + obj.(*corev1.ConfigMap).Data["k"] },
		DeleteFunc: func(obj any) { seen <- "deleted " + name(obj) },
	})
	if err != nil {
		return err
	}
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Data: map[string]string{"k": "1"}}
	if _, err := maps.Create(ctx, first, metav1.CreateOptions{}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%v never synced", kind)
		}
	}
	if err := expect(seen, "added first"); err != nil {
		return err
	}
	first.Data["k"] = "2"
	if _, err := maps.Update(ctx, first, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := expect(seen, "updated first 2"); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return expect(seen, "deleted first")
}

func expect(seen <-chan string, wanted string) error {
	deadline := time.After(patience)
	for {
		select {
		case got := <-seen:
			if got == wanted {
				return nil
			}
		case <-deadline:
			return fmt.Errorf("never saw %q", wanted)
		}
	}
}

// conflict loses a race, and wins it on the second try.
func (p program) conflict(ctx context.Context) error {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "raced"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := maps.Create(ctx, made.DeepCopy(), metav1.CreateOptions{}); err == nil {
		return fmt.Errorf("an object with a resourceVersion was created")
	}
	stale := made.DeepCopy()
	made.Data = map[string]string{"by": "other"}
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !errors.IsConflict(err) {
		return fmt.Errorf("expected a conflict, not %v", err)
	}
	if _, err := maps.Get(ctx, "nothing", metav1.GetOptions{}); !errors.IsNotFound(err) {
		return fmt.Errorf("expected not found, not %v", err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := maps.Get(ctx, "raced", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Data["by"] = "me"
		_, err = maps.Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// apply extracts what it owns from the live object, changes it and applies it again.
func (p program) apply(ctx context.Context) error {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	options := metav1.ApplyOptions{FieldManager: "clients"}
	wanted := corev1apply.ConfigMap("applied", p.namespace).WithData(map[string]string{"a": "1", "b": "2"})
	live, err := maps.Apply(ctx, wanted, options)
	if err != nil {
		return err
	}
	owned, err := corev1apply.ExtractConfigMap(live, "clients")
	if err != nil {
		return err
	}
	if len(owned.Data) != 2 {
		return fmt.Errorf("extracted %v", owned.Data)
	}
	delete(owned.Data, "b")
	live, err = maps.Apply(ctx, owned, options)
	if err == nil && len(live.Data) != 1 {
		return fmt.Errorf("left %v", live.Data)
	}
	return err
}

func (p program) dynamicInformer(ctx context.Context) error {
	resource := schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(p.dynamic, 0, p.namespace, nil)
	informer := factory.ForResource(resource).Informer()
	seen := make(chan string, 16)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "added " + obj.(*unstructured.Unstructured).GetName() },
		DeleteFunc: func(obj any) { seen <- "deleted" },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "trainer.kubeflow.org/v1alpha1",
		"kind":       "TrainJob",
		"metadata":   map[string]any{"name": "made-in-go"},
		"spec":       map[string]any{"suspend": true, "runtimeRef": map[string]any{"name": "plain"}},
	}}
	jobs := p.dynamic.Resource(resource).Namespace(p.namespace)
	if _, err := jobs.Create(ctx, job, metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		return err
	}
	if err := expect(seen, "added made-in-go"); err != nil {
		return err
	}
	if err := jobs.Delete(ctx, "made-in-go", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return expect(seen, "deleted")
}

func (p program) metadataOnly(ctx context.Context) error {
	client := metadata.NewForConfigOrDie(p.config)
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(p.namespace)
	found, err := maps.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	if len(found.Items) != 1 || found.Continue == "" {
		return fmt.Errorf("got %d objects, to be continued at %q", len(found.Items), found.Continue)
	}
	return nil
}

// election lets two candidates run: the second leads when the first gives up.
func (p program) election(ctx context.Context) error {
	leads := make(chan string, 4)
	run := func(ctx context.Context, identity string) {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, p.namespace, "leader",
			p.client.CoreV1(), p.client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
		if err != nil {
			panic(err)
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- identity },
				OnStoppedLeading: func() {},
			},
		})
	}
	first, stop := context.WithCancel(ctx)
	go run(first, "first")
	if err := expect(leads, "first"); err != nil {
		stop()
		return err
	}
	second, end := context.WithCancel(ctx)
	defer end()
	go run(second, "second")
	stop()
	return expect(leads, "second")
}

// events reports through both recorders; the repeated event becomes one with a count.
func (p program) events(ctx context.Context) error {
	about, err := p.client.CoreV1().ConfigMaps(p.namespace).Get(ctx, "raced", metav1.GetOptions{})
	if err != nil {
		return err
	}
	old := record.NewBroadcaster()
	defer old.Shutdown()
	old.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: p.client.CoreV1().Events("")})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "clients"})
	for range 3 {
		recorder.Event(about, corev1.EventTypeNormal, "Again", "the same every time")
	}
	current := events.NewBroadcaster(&events.EventSinkImpl{Interface: p.client.EventsV1()})
	defer current.Shutdown()
	if err := current.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	current.NewRecorder(scheme.Scheme, "clients").Eventf(about, nil, corev1.EventTypeWarning, "Once", "Testing", "in the new API")
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		list, err := p.client.CoreV1().Events(p.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=raced",
		})
		if err != nil {
			return false, err
		}
		counts := map[string]int32{}
		for _, event := range list.Items {
			counts[event.Reason] = event.Count
		}
		_, once := counts["Once"]
		return counts["Again"] == 3 && once, nil
	})
}
