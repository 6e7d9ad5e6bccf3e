job "nereid" {
  group "server" {
    count = 2

    network {
      port "http" { to = 8000 }
      port "grpc" { to = 8001 }
      port "metrics" { to = 8002 }
    }

    update {
      max_parallel     = 1
      canary           = 1
      auto_promote     = true
      auto_revert      = true
      healthy_deadline = "30m"
      progress_deadline = "40m"
    }

    service {
      name     = "nereid"
      port     = "http"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/v2/health/ready"
        interval = "5s"
        timeout  = "4s"
      }
    }

    task "server" {
      driver       = "docker"
      kill_signal  = "SIGTERM"
      kill_timeout = "60s"

      config {
        image           = "nereid:0.1.0"
        ports           = ["http", "grpc", "metrics"]
        readonly_rootfs = true
        args            = ["tritonserver", "--model-repository=/models", "--drain-delay-secs=10", "--exit-timeout-secs=40"]
        volumes         = ["/srv/models:/models:ro"]
        mount {
          type   = "tmpfs"
          target = "/tmp"
        }
      }

      resources {
        cpu    = 2000
        memory = 4096
      }
    }
  }
}
