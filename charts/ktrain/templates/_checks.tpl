{{/* Refuse values that contradict each other or cannot be honoured: the path, the problem, what to do. */}}
{{- define "ktrain.checks" -}}
{{- $values := .Values -}}
{{- $config := $values.manager.config -}}
{{- if and (gt (int $values.manager.replicas) 1) (not $config.leaderElection.leaderElect) -}}
{{- fail (printf "manager.replicas: %d replicas need manager.config.leaderElection.leaderElect: true, so that one of them works at a time" (int $values.manager.replicas)) -}}
{{- end -}}
{{- include "ktrain.checkOverridden" . -}}
{{- include "ktrain.checkUpstream" . -}}
{{- include "ktrain.checkCertificates" . -}}
{{- include "ktrain.checkNamespaced" . -}}
{{- include "ktrain.checkMonitoring" . -}}
{{- include "ktrain.checkPorts" . -}}
{{- end -}}

{{/* Ports of one pod: each server needs its own, and the kubelet has to reach the probes. */}}
{{- define "ktrain.checkPorts" -}}
{{- $config := .Values.manager.config -}}
{{- $ports := dict -}}
{{- $servers := dict "manager.config.metrics.bindAddress" (include "ktrain.metricsPort" .) "manager.config.health.healthProbeBindAddress" (include "ktrain.healthPort" .) -}}
{{- if .Values.webhook.enabled -}}
{{- $_ := set $servers "manager.config.webhook.port" ($config.webhook.port | toString) -}}
{{- end -}}
{{- if include "ktrain.takesReports" . -}}
{{- $_ := set $servers "manager.config.statusServer.port" ($config.statusServer.port | toString) -}}
{{- end -}}
{{- range $path, $port := $servers -}}
{{- if and $port (hasKey $ports $port) -}}
{{- fail (printf "%s: port %s is that of %s, too; choose another one" $path $port (get $ports $port)) -}}
{{- end -}}
{{- $_ := set $ports $port $path -}}
{{- end -}}
{{- $address := $config.health.healthProbeBindAddress -}}
{{- if or (hasPrefix "127." $address) (hasPrefix "localhost:" $address) (hasPrefix "[::1]" $address) -}}
{{- fail (printf "manager.config.health.healthProbeBindAddress: %s is loopback, where the kubelet cannot probe it; leave the host out" $address) -}}
{{- end -}}
{{- end -}}

{{/* Fields of the configuration file that other values decide. */}}
{{- define "ktrain.checkOverridden" -}}
{{- $config := .Values.manager.config -}}
{{- $jobsets := eq (include "ktrain.runsJobSets" .) "true" -}}
{{- if ne (dig "enable" .Values.webhook.enabled $config.webhook) .Values.webhook.enabled -}}
{{- fail "manager.config.webhook.enable: it contradicts webhook.enabled, which decides; leave it out" -}}
{{- end -}}
{{- if ne (dig "enable" $jobsets ($config.jobset | default dict)) $jobsets -}}
{{- fail "manager.config.jobset.enable: it contradicts jobset.mode, which decides; leave it out" -}}
{{- end -}}
{{- if and $config.watchNamespaces (ne ($config.watchNamespaces | toJson) (.Values.watchNamespaces | toJson)) -}}
{{- fail "manager.config.watchNamespaces: it contradicts watchNamespaces, which decides; leave it out" -}}
{{- end -}}
{{- end -}}

{{/* Values of Kubeflow Trainer's chart that cannot be honoured. */}}
{{- define "ktrain.checkUpstream" -}}
{{- $values := .Values -}}
{{- if or $values.dataCache.enabled $values.dataCache.runtimes.torchDistributedWithCache.enabled -}}
{{- fail "dataCache: ktrain has no data cache; set dataCache.enabled and dataCache.runtimes.torchDistributedWithCache.enabled to false, and use a runtime with a dataset initializer" -}}
{{- end -}}
{{- $image := $values.image -}}
{{- if hasSuffix "kubeflow/trainer/trainer-controller-manager" $image.repository -}}
{{- if or (ne $image.repository "kubeflow/trainer/trainer-controller-manager") (ne $image.registry "ghcr.io") $image.tag $image.digest -}}
{{- fail "image: this is the operator of Kubeflow Trainer, which does not know ktrain's configuration; name the registry, repository and tag of a ktrain image, or leave image out" -}}
{{- end -}}
{{- end -}}
{{- if and $values.jobset.mode (not $values.jobset.install) (eq $values.jobset.mode "builtin") -}}
{{- fail "jobset.mode: builtin contradicts jobset.install: false; leave jobset.install out" -}}
{{- end -}}
{{- end -}}

{{- define "ktrain.checkCertificates" -}}
{{- $values := .Values -}}
{{- if and (include "ktrain.takesReports" .) (not $values.webhook.enabled) (not $values.certManager.enabled) (not $values.manager.config.certManagement.webhookSecretName) -}}
{{- fail "manager.config.featureGates.TrainJobStatus: without webhooks the status server needs a certificate; set certManager.enabled: true, or name a Secret with ca.crt, tls.crt and tls.key in manager.config.certManagement.webhookSecretName" -}}
{{- end -}}
{{- if and $values.webhook.enabled (not $values.manager.config.certManagement.enable) (not $values.certManager.enabled) -}}
{{- if not (and $values.manager.config.certManagement.webhookSecretName (or $values.webhook.caBundle $values.webhook.annotations)) -}}
{{- fail "manager.config.certManagement.enable: false needs certManager.enabled: true, or a Secret with tls.crt and tls.key in manager.config.certManagement.webhookSecretName and its CA in webhook.caBundle (or an annotation in webhook.annotations that has it injected)" -}}
{{- end -}}
{{- end -}}
{{- if and $values.webhook.caBundle (or $values.certManager.enabled (include "ktrain.makesCertificates" .)) -}}
{{- fail "webhook.caBundle: the maker of the certificate writes its CA; leave it out, or set manager.config.certManagement.enable: false" -}}
{{- end -}}
{{- if and $values.certManager.enabled (not (include "ktrain.mountsCertificates" .)) -}}
{{- fail "certManager.enabled: neither webhooks nor the feature gate TrainJobStatus is on, so nothing needs a certificate; set it to false" -}}
{{- end -}}
{{- end -}}

{{- define "ktrain.checkNamespaced" -}}
{{- if include "ktrain.namespaced" . -}}
{{- if include "ktrain.makesCertificates" . -}}
{{- fail "watchNamespaces: certificates that the operator makes need rights on webhook configurations, which are cluster-wide; set certManager.enabled: true, or webhook.enabled: false" -}}
{{- end -}}
{{- if include "ktrain.takesReports" . -}}
{{- fail "watchNamespaces: the status server (manager.config.featureGates.TrainJobStatus) needs TokenReviews, which are cluster-wide; switch the feature gate off" -}}
{{- end -}}
{{- if include "ktrain.authorizesMetrics" . -}}
{{- fail "watchNamespaces: manager.config.metrics.authorize needs TokenReviews, which are cluster-wide; set it to false, and use networkPolicy.metricsFrom" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ktrain.checkMonitoring" -}}
{{- $monitoring := .Values.monitoring -}}
{{- if and (or $monitoring.serviceMonitor.enabled $monitoring.podMonitor.enabled) (not (include "ktrain.metricsPort" .)) -}}
{{- fail "monitoring: manager.config.metrics.bindAddress switches metrics off, so there is nothing to scrape; set it to \":8080\"" -}}
{{- end -}}
{{- if and $monitoring.serviceMonitor.enabled $monitoring.podMonitor.enabled -}}
{{- fail "monitoring.podMonitor.enabled: with monitoring.serviceMonitor.enabled every pod would be scraped twice; set one of them to false" -}}
{{- end -}}
{{- end -}}
